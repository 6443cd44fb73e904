"""The experiment `pairs`: how kernels slow each other down, on siblings, nearby and far apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

from schedlens.errors import PlanError
from schedlens.experiments import places, port_model
from schedlens.experiments.places import Place
from schedlens.load.measured_cell import Cell, Facts, Load, Prediction
from schedlens.machine.topology import Topology
from schedlens.record import cells
from schedlens.record.cells import ALONE
from schedlens.record.experiment_defaults import CELL_S

NAME = "pairs"

# The articles read 1 GiB in steps of 32 KiB; the second is for machines with little memory.
_STRIDES = ("1g", "64m")
# The pairs of the articles and the chapter, and the classes of its decision matrix.
ON_ONE_CORE = (
    "imul1+imul1", "imul2+imul1", "imul2+imul2", "imul3+imul1", "imul_add+imul1", "add1+imul1",
    "add8+imul1",
    "sha256+sha256", "mem_seq+mem_stride:1g",
    "imul1+mem_seq", "imul2+mem_seq", "imul3+mem_seq",
    "imul1+mem_stride:1g", "imul2+mem_stride:1g", "imul3+mem_stride:1g",
    "pause+imul3", "pointer_chase:private+pointer_chase:private",
    "pointer_chase:shared+pointer_chase:shared",
    "aes+aes", "matmul+matmul", "scan+scan",
)  # fmt: skip
# The control: the same pairs without shared execution units.
ON_TWO_CORES = (
    "sha256+sha256", "mem_seq+mem_stride:1g", "pointer_chase:private+pointer_chase:private",
    "pointer_chase:shared+pointer_chase:shared",
)  # fmt: skip
# Ten chains fill up to three multipliers, so two such loops halve their speed on siblings, even
# if the system hides that they are siblings.
PROBE = "imul10+imul10"
KNEE = tuple(f"imul{chains}" for chains in range(1, 11))
# The kernels that run alongside the user's program, one of each class.
COMMAND_PARTNERS = ("imul3", "sha256", "matmul", "scan", "pointer_chase:private")
# In the articles, both siblings together do 6 % more than one alone.
_SHA256_TOGETHER = 1.06
_FULL_WITHOUT = {"spin_handoff", "queue", "frame", "game", "serve", "ruler", "housekeeping"}


def plan(
    topology: Topology, *, full: bool, only: Sequence[str], command: Sequence[str] = ()
) -> tuple[list[Cell], list[str]]:
    """The cells of one repeat, and a line for each thing that cannot be measured here.

    `full`: all pairs of kernels, in every place. `only`: these pairs, in every place. `command`:
    the user's program with one kernel of each class. Raises `PlanError` or the workload
    program's errors.
    """
    there, missing = places.find(topology)
    if command:
        return _with_command(there, topology), missing
    core = port_model.this_machine()
    stride, short = _stride()
    missing += short
    made: list[Cell] = []
    refused: dict[str, str] = {}
    for place, named in _wanted(there, full=full, only=only):
        # A pair that the user named must not be replaced.
        pair = named if only else named.replace(f"mem_stride:{_STRIDES[0]}", stride)
        loads = _parse(pair)
        why = next(
            ((load, text) for load in loads if (text := cells.refusal(load)) is not None), None
        )
        if why is not None:
            refused[why[0].label] = why[1]
            continue
        made.append(_cell(place, loads, core))
    missing += [f"{label}: {why}" for label, why in sorted(refused.items())]
    if not made:
        raise PlanError(f"none of the pairs can run here: {'; '.join(missing)}")
    return [*_alone(made, topology, there, only=only), *made], missing


def _wanted(there: list[Place], *, full: bool, only: Sequence[str]) -> list[tuple[Place, str]]:
    if only:
        return [(place, pair) for place in there for pair in only]
    if full:
        kernels = [label for label in _every_kernel() if label not in _FULL_WITHOUT]
        both = combinations_with_replacement(kernels, 2)
        return [(place, f"{one}+{other}") for one, other in both for place in there]
    # Without siblings, the nearest place shows whether the system only hides them.
    chosen = [(there[0], pair) for pair in ON_ONE_CORE]
    chosen += [(place, PROBE) for place in there]
    if len(there) > 1:
        apart = next(place for place in there if not place.on_one_core)
        chosen += [(apart, pair) for pair in ON_TWO_CORES if apart != there[0]]
    by_name = {place.name: place for place in there}
    for name in (places.SAME_L2, places.P_AND_E):
        if name in by_name and by_name[name] != there[0]:
            chosen += [(by_name[name], "sha256+sha256"), (by_name[name], "scan+scan")]
    return list(dict.fromkeys(chosen))


def _stride() -> tuple[str, list[str]]:
    """The largest stride that fits in memory, and a line if it is not the first choice."""
    whys = [cells.refusal(Load("mem_stride", variant)) for variant in _STRIDES]
    if whys[0] is None or whys[1] is not None:
        return f"mem_stride:{_STRIDES[0]}", []
    why = f"mem_stride:{_STRIDES[0]}: {whys[0]}: reading 64 MiB by 2 KiB instead"
    return f"mem_stride:{_STRIDES[1]}", [why]


def _with_command(there: list[Place], topology: Topology) -> list[Cell]:
    """The user's program alone and alongside a kernel of each class, in every place."""
    loads = [load for label in COMMAND_PARTNERS if cells.refusal(load := cells.load(label)) is None]
    facts = Facts(load="command")
    made = [Cell(NAME, "command-alone", ALONE, there[0].cpus[:1], facts=facts)]
    made += [
        Cell(NAME, f"{load.label}-alone-cpu{cpu}", ALONE, (cpu,), (load,),
             facts=Facts(seconds=CELL_S[NAME]))
        for load in loads
        for cpu in places.first_of_types(topology, there)
    ]  # fmt: skip
    made += [
        Cell(NAME, f"command+{load.label}-{place.name}", place.name, place.cpus[1:], (load,),
             facts=replace(facts, command_cpu=place.cpus[0]))
        for load in loads
        for place in there
    ]  # fmt: skip
    return made


def _every_kernel() -> list[str]:
    from schedlens.record import workload_program

    names = []
    for kernel in workload_program.catalogue():
        name, variants = kernel.kernel, list(kernel.refusals)
        names += [f"{name}:{v}" for v in variants] if name == "pointer_chase" else [name]
    return ["mem_stride:1g" if name == "mem_stride" else name for name in names]


def _parse(pair: str) -> tuple[Load, Load]:
    both = pair.split("+")
    if len(both) != 2 or not all(both):
        raise PlanError(f"--pair: '{pair}' is not of the form KERNEL+KERNEL")
    return cells.load(both[0]), cells.load(both[1])


def _alone(
    made: list[Cell], topology: Topology, there: list[Place], *, only: Sequence[str]
) -> list[Cell]:
    """Each kernel alone on each core type, and the imul series unless `only` limits the pairs."""
    loads = {load.label: load for cell in made for load in cell.loads}
    if not only:
        loads |= {name: Load(name) for name in KNEE}
    return [
        Cell(NAME, f"{load.label}-alone-cpu{cpu}", ALONE, (cpu,), (load,))
        for load in loads.values()
        for cpu in places.first_of_types(topology, there)
    ]


def _cell(place: Place, loads: tuple[Load, Load], core: port_model.Core) -> Cell:
    name = "+".join(load.label for load in loads)
    return Cell(NAME, f"{name}-{place.name}", place.name, place.cpus, loads,
                predicted=_predicted(place, loads, core))  # fmt: skip


def _predicted(
    place: Place, loads: tuple[Load, Load], core: port_model.Core
) -> tuple[Prediction | None, ...]:
    """How much slower each load is expected to be, and why; None if there is no prediction."""
    first, second = (load.kernel for load in loads)
    if place.name == places.TWO_CPUS:
        return (None, None)
    if not (port_model.known(first) and port_model.known(second)):
        if first == second == "sha256" and place.on_one_core:
            slower = round(2 / _SHA256_TOGETHER, 3)
            row = Prediction(slower, "the articles' Haswell: 6 % more together")
            return (row, row)
        return (None, None)
    if not place.on_one_core:
        row = Prediction(1.0, "registers only: two cores share nothing of it")
        return (row, row)
    return tuple(
        Prediction(round(slower, 4), core.basis)
        for slower in port_model.slowdowns(first, second, core)
    )
