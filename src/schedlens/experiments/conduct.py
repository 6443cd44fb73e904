"""What an experiment adds to a collection: its plan, its warm-up, and the settings of each cell."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import TracebackType

from schedlens.errors import PlanError, WorkloadError
from schedlens.experiments import (
    handoff,
    offered_load,
    pairs,
    scaling,
    shards,
    smt_boost,
)
from schedlens.load.measured_cell import Cell, Load
from schedlens.load.session_file import SavedExperiment, Step
from schedlens.machine.topology import Topology
from schedlens.output import wording
from schedlens.record import cells, host, load_report, workload_program
from schedlens.record.conductor import Conductor
from schedlens.record.experiment_defaults import MOST_TIMES
from schedlens.record.host import Host
from schedlens.record.request import Request
from schedlens.record.session import Session

# All CPUs compute this long before the first cell, to reach the clock and temperature of load.
WARM_UP_S = 1.0


class Experiment(Conductor):
    """Cells in random order, repeated."""

    def cells(self, topology: Topology) -> list[Cell]:
        """The cells of one repeat; fills `missing`. Raises `PlanError`."""
        raise NotImplementedError

    def steps(self, topology: Topology) -> list[Step]:
        return cells.shuffled(self.cells(topology), self.request.repeats, self.request.seed)

    def replacements(self, steps: Sequence[Step], disturbed: Collection[str]) -> list[Step]:
        last = max(step.repeat for step in steps)
        if last >= MOST_TIMES * self.request.repeats:
            return []
        short = self._short(steps, disturbed)
        known = {step.cell.name: step.cell for step in steps if step.cell is not None}
        wanted = set(short)
        for name in short:
            # A cell is compared with cells of the same repeat, which must be measured again too.
            wanted |= {other.name for other in self.baselines(known[name], list(known.values()))}
        return cells.again(steps, wanted, self.request.seed) if wanted else []

    def shortfall(self, steps: Sequence[Step], disturbed: Collection[str]) -> list[str]:
        short = self._short(steps, disturbed)
        if not short:
            return []
        cells_in_all = len({_name(step) for step in steps})
        return [
            f"{len(short)} of {wording.count(cells_in_all, 'cell')} have fewer than "
            f"{self.request.repeats} undisturbed repeats, the fewest {min(short.values())}: "
            "`coverage_pct` shows the confidence of their intervals"
        ]

    def _short(self, steps: Sequence[Step], disturbed: Collection[str]) -> dict[str, int]:
        """The undisturbed repeats of each cell that has fewer than requested."""
        clean = dict.fromkeys((_name(step) for step in steps), 0)
        for step in steps:
            clean[_name(step)] += step.state == "done" and step.name not in disturbed
        return {name: count for name, count in clean.items() if count < self.request.repeats}

    def baselines(self, cell: Cell, known: Sequence[Cell]) -> list[Cell]:
        """The cells that a cell is compared with in the same repeat."""
        return []

    def about(self) -> SavedExperiment:
        return SavedExperiment(
            self.request.experiment, tuple(self.missing), self.host.other_users()
        )

    def said_first(self) -> list[str]:
        lines = [f"not measured here: {text}" for text in self.missing]
        noise, others = self.host.unrest(), self.host.other_users()
        if others:
            lines.append(host.others(others))
        return [*lines, noise] if noise else lines

    def begin(self, topology: Topology) -> None:
        threads = len(topology.usable)
        seconds = min(WARM_UP_S, 5 * (self.request.seconds or WARM_UP_S))
        command = [
            workload_program.program(), "run", "imul1",
            "--threads", str(threads), "--seconds", f"{seconds:g}",
        ]  # fmt: skip
        try:
            subprocess.run(command, capture_output=True, timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise WorkloadError(f"cannot run the warm-up: {error}") from None


def _name(step: Step) -> str:
    return step.cell.name if step.cell is not None else step.name


class Pairs(Experiment):
    """`pairs`."""

    def baselines(self, cell: Cell, known: Sequence[Cell]) -> list[Cell]:
        if cell.place == cells.ALONE:
            return []
        return [
            other
            for other in known
            if other.place == cells.ALONE and (not other.loads or other.loads[0] in cell.loads)
        ]

    def cells(self, topology: Topology) -> list[Cell]:
        request = self.request
        made, self.missing = pairs.plan(
            topology, full=request.full, only=request.pairs, command=request.command
        )
        return made


class Handoff(Experiment):
    """`handoff`: frames run after the hand-offs, which measure the length of a slice."""

    def steps(self, topology: Topology) -> list[Step]:
        hops, frames, self.missing = handoff.plan(topology)
        repeats, seed = self.request.repeats, self.request.seed
        first = cells.shuffled(hops, repeats, seed)
        return first + cells.shuffled(frames, repeats, seed + 1, after=len(first))

    def enter(self, step: Step, session: Session) -> Step:
        return handoff.entered(step, session.folder, session.steps)


class Shards(Experiment):
    """`shards`."""

    def baselines(self, cell: Cell, known: Sequence[Cell]) -> list[Cell]:
        return [other for other in known if other.place == shards.baseline(cell.place)]

    def cells(self, topology: Topology) -> list[Cell]:
        first = topology.usable[0].cpu if topology.usable else 0
        made, self.missing = shards.plan(topology, self.request.threads, offered_load.rate(first))
        return made


class Scaling(Experiment):
    """`scaling`."""

    def baselines(self, cell: Cell, known: Sequence[Cell]) -> list[Cell]:
        if cell.place != scaling.BOTH:
            return []
        alone = [other for other in known if other.place == cells.ALONE]
        return [other for other in alone if other.loads[0] == cell.loads[0]]

    def cells(self, topology: Topology) -> list[Cell]:
        request = self.request
        kernel = Load(request.workload or "sha256", request.variant)
        made, self.missing = scaling.plan_cells(
            topology, kernel, request.threads, request.sustain_s
        )
        if why := self.host.no_energy():
            self.missing.append(why)
        return made


class SmtBoost(Experiment):
    """`smt-boost`."""

    def __init__(self, request: Request, on: Host) -> None:
        super().__init__(request, on)
        self._found, self._stuck = on.knobs()
        self._states = smt_boost.States(self._found, on)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._states.close()

    def baselines(self, cell: Cell, known: Sequence[Cell]) -> list[Cell]:
        alike = [other for other in known if other.facts.load == cell.facts.load]
        # Both off, or what is nearest to it.
        return [min(alike, key=lambda other: (other.facts.smt or "", other.facts.boost or ""))]

    def cells(self, topology: Topology) -> list[Cell]:
        self.missing = list(self._stuck)
        if why := self.host.no_energy():
            self.missing.append(why)
        request = self.request
        is_service = request.is_service
        if request.load_report is None and (is_service or request.command):
            self.missing.append("requests of the service: name a command with --load-report")
        cores = shards.count(topology, None)
        first = topology.usable[0].cpu if topology.usable else 0
        own = is_service or bool(request.command)
        offered = 0.0 if own else offered_load.rate(first) * cores
        return smt_boost.plan(self._found, request.command, offered, is_service=is_service)

    def about(self) -> SavedExperiment:
        request = self.request
        if request.load_report is not None and not request.command:
            # The service runs already, so a command that cannot count fails before the first cell.
            load_report.read(request.load_report)
        return super().about()

    def preview(self, step: Step, topology: Topology) -> Step:
        if step.cell is not None and step.cell.facts.smt == "off":
            # Without SMT, the first CPU of each core is online.
            first = [cpu.cpu for cpu in topology.usable if cpu.smt_index in (0, None)]
            topology = replace(topology, allowed=tuple(first))
        return smt_boost.filled(step, topology)

    def enter(self, step: Step, session: Session) -> Step:
        return self._states.enter(step)


EXPERIMENTS: dict[str, type[Experiment]] = {
    "smt-boost": SmtBoost,
    "pairs": Pairs,
    "scaling": Scaling,
    "handoff": Handoff,
    "shards": Shards,
}


def of(request: Request, on: Host) -> Conductor:
    """The conductor of a request. Raises `PlanError` if the experiment is unknown."""
    if request.experiment is None:
        return Conductor(request, on)
    if request.experiment not in EXPERIMENTS:
        raise PlanError(f"--experiment: choose from {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[request.experiment](request, on)
