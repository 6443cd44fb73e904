"""The experiment `scaling`: 1 to N threads in three placements, turbo, table 1, and the yield Y."""

from __future__ import annotations

from collections.abc import Sequence

from schedlens.errors import PlanError
from schedlens.load.measured_cell import Cell, Facts, Load
from schedlens.machine.topology import Cpu, Topology
from schedlens.record import cells, placement, plan, thread_range
from schedlens.record.cells import ALONE

NAME = "scaling"
SWEEP = "sweep"
TABLE = "table"
BOTH = "siblings"
KNEE = "knee"
TURBO = "turbo"

# Kernels for the machine's calibration: their second threads gain differently.
CALIBRATED = (
    Load("imul1"), Load("sha256"), Load("matmul"), Load("scan"), Load("pointer_chase", "private"),
)  # fmt: skip
# One thread on each core that uses a third, two thirds and all of its one multiplier.
_TABLE = ("imul1", "imul2", "imul3")


def plan_cells(
    topology: Topology, kernel: Load, threads: str | None, sustain_s: float | None = None
) -> tuple[list[Cell], list[str]]:
    """The cells of one repeat, and what cannot be measured here. Raises `PlanError`.

    `sustain_s` adds cells that run for so long, to see how the clock falls with heat and power.
    """
    usable = topology.usable
    counts = thread_range.parse(threads or "1..max", len(usable))
    missing: list[str] = []
    made = _sweep(topology, kernel, counts)
    try:
        cores = placement.order(topology, "physical")[: len(_cores(usable))]
    except PlanError as error:
        return made, [str(error)]
    made += [
        Cell(NAME, f"table-{name}", TABLE, tuple(cores), (Load(name),), threads=len(cores),
             placements=("physical",))
        for name in _TABLE
    ]  # fmt: skip
    if sustain_s is not None:
        made += [_sustained(kernel, cores[:count], sustain_s) for count in _active(len(cores))]
    made += [
        Cell(NAME, f"{name}-{kind or 'core'}-knee", KNEE, (cpu,), (Load(name),))
        for name in (f"imul{chains}" for chains in range(1, 11))
        for kind, cpu in _seats(usable)[0].items()
    ]
    loads = list(dict.fromkeys([kernel, *CALIBRATED]))
    refused = {load.label: why for load in loads if (why := cells.refusal(load)) is not None}
    missing += [f"{label}: {why}" for label, why in refused.items()]
    alone, both = _seats(usable)
    if not both:
        missing.append("the yield of the second thread: no core has two usable logical CPUs")
    for load in loads:
        if load.label in refused:
            continue
        for core_type, cpu in alone.items():
            made.append(
                Cell(NAME, f"{load.label}-{core_type or 'core'}-alone", ALONE, (cpu,), (load,))
            )
        for core_type, pair in both.items():
            made.append(
                Cell(NAME, f"{load.label}-{core_type or 'core'}-both", BOTH, pair, (load, load))
            )
    return made, missing


def _active(cores: int) -> list[int]:
    """Numbers of active cores: powers of two, and all."""
    powers = [1 << power for power in range(cores.bit_length())]
    return sorted({count for count in (*powers, cores) if 1 <= count <= cores})


def _sustained(kernel: Load, cpus: Sequence[int], seconds: float) -> Cell:
    return Cell(
        NAME, f"turbo-c{len(cpus):02d}", TURBO, tuple(cpus), (kernel,), threads=len(cpus),
        facts=Facts(seconds=seconds), placements=("physical",),
    )  # fmt: skip


def _sweep(topology: Topology, kernel: Load, counts: Sequence[int]) -> list[Cell]:
    """Every number of threads in every placement; identical plans are one cell."""
    made = []
    for step in plan.sweep(topology, kernel.kernel, counts, _placements(topology), 1, None):
        cpus = step.planned_cpus
        made.append(
            Cell(NAME, f"sweep-{step.placement}-t{step.threads:02d}", SWEEP, cpus, (kernel,),
                 threads=step.threads or 1, placements=step.placements)
        )  # fmt: skip
    return made


def _placements(topology: Topology) -> tuple[str, ...]:
    known = all(cpu.core is not None for cpu in topology.usable)
    return placement.PLACEMENTS if known else ("default",)


def _cores(usable: Sequence[Cpu]) -> set[int | None]:
    return {cpu.core for cpu in usable}


def _seats(
    usable: Sequence[Cpu],
) -> tuple[dict[str | None, int], dict[str | None, tuple[int, int]]]:
    """A CPU of each core type for one worker alone, and two siblings of the same core for both."""
    by_core: dict[int | None, list[Cpu]] = {}
    for cpu in usable:
        by_core.setdefault(cpu.core, []).append(cpu)
    alone: dict[str | None, int] = {}
    both: dict[str | None, tuple[int, int]] = {}
    # Cores with siblings first, so that alone and both are measured on the same core.
    for core in sorted(by_core.values(), key=lambda cpus: (-min(len(cpus), 2), cpus[0].cpu)):
        kind = core[0].core_type
        alone.setdefault(kind, core[0].cpu)
        if len(core) > 1 and alone[kind] == core[0].cpu:
            both.setdefault(kind, (core[0].cpu, core[1].cpu))
    return alone, both
