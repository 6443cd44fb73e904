"""The cells of an experiment, what runs in each, and the order in which they are measured."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from schedlens.errors import PlanError, SessionError
from schedlens.load.measured_cell import Cell, Load
from schedlens.load.session_file import Step
from schedlens.record import workload_program

ALONE = "alone"
# The option with the seed of the arrivals of open loops.
_SEED = "--seed"


def step(cell: Cell, repeat: int, position: int) -> Step:
    """The cell as a step of a session; `repeat` and `position` count from 1."""
    workers = max(cell.threads, len(cell.loads))
    names = cell.placements or ("pinned" if cell.cpus else "default",)
    return Step(
        name=f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', cell.name)}-r{repeat}",
        workload=cell.workload,
        placements=names,
        placement=names[0],
        threads=workers if cell.loads else None,
        repeat=repeat,
        oversubscribed=cell.cpus is not None and len(set(cell.cpus)) < workers,
        planned_cpus=cell.cpus or None,
        cell=replace(cell, position=position),
    )


def words(step: Step) -> list[str]:
    """The arguments of the workload program after `run`, without the interval and the folder.

    Raises `SessionError` for a step without kernels.
    """
    cell = step.cell
    if cell is None or not cell.loads:
        raise SessionError(f"session.json: step {step.name} has no kernel to run")
    first, others = cell.loads[0], cell.loads[1:]
    alike = all(load == first for load in others)
    threads = max(cell.threads, len(cell.loads)) if alike else 1
    arguments = [first.kernel, "--threads", str(threads)]
    if first.variant:
        arguments += ["--variant", first.variant]
    if not alike:
        for load in others:
            arguments += ["--alongside", load.label]
    if step.planned_cpus is not None:
        arguments += ["--cpus", ",".join(map(str, step.planned_cpus))]
    return [*arguments, *cell.options]


def shuffled(cells: Sequence[Cell], repeats: int, seed: int, after: int = 0) -> list[Step]:
    """Every cell once per repeat, each repeat in its own order, which `seed` determines.

    A drift of the machine then affects all cells alike, so the cells of one repeat can be
    compared. For the same reason, the requests of all open loops of a repeat arrive at the same
    times; other repeats have other arrivals, so that their variance is part of each interval.
    `after` is the number of steps before these.
    """
    if repeats < 1:
        raise PlanError("--repeat must be at least 1")
    steps: list[Step] = []
    for repeat in range(1, repeats + 1):
        steps += _repeated(cells, repeat, seed, after + len(steps))
    return steps


def again(steps: Sequence[Step], names: Collection[str], seed: int) -> list[Step]:
    """One more repeat of the cells with these names, in a new order and with new arrivals."""
    found = {step.cell.name: step.cell for step in steps if step.cell is not None}
    repeat = max(step.repeat for step in steps) + 1
    chosen = [found[name] for name in sorted(names)]
    return _repeated(chosen, repeat, seed, len(steps))


def _repeated(cells: Sequence[Cell], repeat: int, seed: int, after: int) -> list[Step]:
    chance = random.Random(f"{seed}/{repeat}")
    order = list(cells)
    chance.shuffle(order)
    arrivals = chance.randrange(1 << 63)
    return [
        step(_with_arrivals(cell, arrivals), repeat, after + n)
        for n, cell in enumerate(order, start=1)
    ]


def arrivals(cell: Cell) -> tuple[str, ...]:
    """The option with the seed of its arrivals; empty if it has none."""
    if _SEED not in cell.options:
        return ()
    at = cell.options.index(_SEED)
    return cell.options[at : at + 2]


def _with_arrivals(cell: Cell, seed: int) -> Cell:
    """The cell with the seed of its arrivals, if it is an open loop."""
    if Load("serve", "open") not in cell.loads:
        return cell
    at = cell.options.index(_SEED) if _SEED in cell.options else len(cell.options)
    others = (*cell.options[:at], *cell.options[at + 2 :])
    return replace(cell, options=(*others, _SEED, str(seed)))


def load(text: str) -> Load:
    """Parses `KERNEL` or `KERNEL:VARIANT`. Raises the workload program's errors."""
    name, _, variant = text.partition(":")
    kernel = workload_program.kernel(name)
    if kernel.parties != 1:
        raise PlanError(f"'{name}' runs workers in pairs: it cannot be one of a pair of kernels")
    if variant and variant not in kernel.refusals:
        raise PlanError(f"'{text}': the variants of {name} are {', '.join(kernel.refusals)}")
    return Load(name, variant or None)


def refusal(wanted: Load) -> str | None:
    """Why this machine cannot run a load; None: it can. Raises the workload program's errors."""
    return workload_program.kernel(wanted.kernel).refusal(wanted.variant)
