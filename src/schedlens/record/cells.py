"""The cells of an experiment, what runs in each, and the order in which they are measured."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from schedlens.errors import PlanError, SessionError
from schedlens.record import workload_program
from schedlens.record.plan import Step

ALONE = "alone"


@dataclass(frozen=True)
class Load:
    """A kernel and its variant; None means the default variant."""

    kernel: str
    variant: str | None = None

    @property
    def label(self) -> str:
        """As the user types it: `imul1`, `pointer_chase:private`."""
        return f"{self.kernel}:{self.variant}" if self.variant else self.kernel


@dataclass(frozen=True)
class Cell:
    """What is measured at once; the fields after the first four differ by experiment.

    `cpus` has one CPU per worker; None: decided when the cell begins, or no mask.
    """

    experiment: str
    name: str
    place: str
    cpus: tuple[int, ...] | None
    loads: tuple[Load, ...] = ()
    threads: int = 1
    options: tuple[str, ...] = ()
    predicted: tuple[dict[str, Any] | None, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    placements: tuple[str, ...] = ()

    @property
    def workload(self) -> str | None:
        """The kernels' names as the workload program writes them; None: a command alone."""
        if not self.loads:
            return None
        alike = len(set(self.loads)) == 1
        return self.loads[0].kernel if alike else "+".join(load.kernel for load in self.loads)

    def step(self, repeat: int, position: int) -> Step:
        """The cell as a step of a session."""
        workers = max(self.threads, len(self.loads))
        names = list(self.placements) or ["pinned" if self.cpus else "default"]
        return Step(
            name=f"{re.sub(r'[^A-Za-z0-9._+-]+', '-', self.name)}-r{repeat}",
            workload=self.workload,
            placements=names,
            placement=names[0],
            threads=workers if self.loads else None,
            repeat=repeat,
            oversubscribed=self.cpus is not None and len(set(self.cpus)) < workers,
            planned_cpus=list(self.cpus) if self.cpus else None,
            cell={**asdict(self), "position": position},
        )


def from_step(step: Step) -> Cell:
    """The cell of a step. Raises `SessionError`."""
    row = dict(step.cell or {})
    for key in ("position", "topology"):
        row.pop(key, None)
    try:
        row["loads"] = tuple(Load(**load) for load in row["loads"])
        for name in ("cpus", "options", "predicted", "placements"):
            row[name] = None if row[name] is None else tuple(row[name])
        return Cell(**row)
    except (KeyError, TypeError) as error:
        raise SessionError(f"session.json contains a malformed cell: {error}") from None


def words(step: Step) -> list[str]:
    """The arguments of the workload program after `run`, without the interval and the folder."""
    cell = from_step(step)
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
    compared. `after` is the number of steps before these.
    """
    if repeats < 1:
        raise PlanError("--repeat must be at least 1")
    steps: list[Step] = []
    for repeat in range(1, repeats + 1):
        order = list(cells)
        random.Random(f"{seed}/{repeat}").shuffle(order)
        done = after + len(steps)
        steps += [cell.step(repeat, done + n) for n, cell in enumerate(order, start=1)]
    return steps


def load(text: str) -> Load:
    """Parses `KERNEL` or `KERNEL:VARIANT`. Raises the workload program's errors."""
    kernel, _, variant = text.partition(":")
    row = _known(kernel)
    if int(row.get("parties") or 1) != 1:
        raise PlanError(f"'{kernel}' runs workers in pairs: it cannot be one of a pair of kernels")
    known = workload_program.variants(row)
    if variant and variant not in known:
        raise PlanError(f"'{text}': the variants of {kernel} are {', '.join(known)}")
    return Load(kernel, variant or None)


def _known(kernel: str) -> dict[str, Any]:
    """The catalog entry of a kernel. Raises `UnknownWorkloadError`."""
    return _catalogue(workload_program.program(), kernel)


@functools.cache
def _catalogue(_program: str, kernel: str) -> dict[str, Any]:
    return workload_program.kernel(kernel)


def refusal(wanted: Load) -> str | None:
    """Why this machine cannot run a load; None: it can. Raises the workload program's errors."""
    row = _known(wanted.kernel)
    known = workload_program.variants(row)
    return known.get(wanted.variant or str(row.get("default_variant")))
