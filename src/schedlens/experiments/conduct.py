"""What an experiment adds to a collection: its plan, its warm-up, and the settings of each cell."""

from __future__ import annotations

import subprocess
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
from schedlens.record import cells, host, workload_program
from schedlens.record.conductor import Conductor
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


class Pairs(Experiment):
    """`pairs`."""

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

    def cells(self, topology: Topology) -> list[Cell]:
        first = topology.usable[0].cpu if topology.usable else 0
        made, self.missing = shards.plan(topology, self.request.threads, offered_load.rate(first))
        return made


class Scaling(Experiment):
    """`scaling`."""

    def cells(self, topology: Topology) -> list[Cell]:
        request = self.request
        kernel = Load(request.workload or "sha256", request.variant)
        made, self.missing = scaling.plan_cells(topology, kernel, request.threads)
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

    def cells(self, topology: Topology) -> list[Cell]:
        self.missing = list(self._stuck)
        if why := self.host.no_energy():
            self.missing.append(why)
        command = self.request.command
        cores = shards.count(topology, None)
        first = topology.usable[0].cpu if topology.usable else 0
        offered = 0.0 if command else offered_load.rate(first) * cores
        return smt_boost.plan(self._found, command, offered)

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
