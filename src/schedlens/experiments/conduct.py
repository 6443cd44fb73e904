"""What an experiment adds to a collection: its plan, its warm-up, the state it sets for a cell."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from schedlens import workload_program
from schedlens.errors import PlanError, WorkloadError
from schedlens.experiments import (
    cells,
    handoff,
    knobs,
    pairs,
    requests,
    scaling,
    shards,
    smt_boost,
)
from schedlens.experiments.cells import Cell, Load
from schedlens.machine_state import has_energy
from schedlens.plan import Step
from schedlens.request import Request
from schedlens.session import Session
from schedlens.topology import Topology
from schedlens.wording import count

# All CPUs work this long before the first cell, so that clock and heat are those of work.
WARM_UP_S = 1.0
# Waiting threads a CPU, as the load average counts them, from which a machine is not quiet.
QUIET_LOAD = 0.2
# User ids below are the system's own; the highest is that of nobody.
_FIRST_PERSON = 1000
_NOBODY = 65534


class Conductor:
    """Nothing is added where no experiment is asked for; the subclasses are the experiments."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.missing: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Puts back what the cells changed."""

    def steps(self, topology: Topology) -> list[Step]:
        """The plan on this machine; raises `PlanError`."""
        return self.request.steps(topology)

    def head(self) -> dict[str, Any]:
        """What session.json keeps beside the plan."""
        return {}

    def said_first(self) -> list[str]:
        """Lines for the user before the first step."""
        return []

    def begin(self, topology: Topology) -> None:
        """Before the first step."""

    def enter(self, step: Step, session: Session) -> None:
        """Before a step of the session."""


class Experiment(Conductor):
    """Cells in random order, repeated."""

    def cells(self, topology: Topology) -> list[Cell]:
        """The cells of one repeat; fills `missing`. Raises `PlanError`."""
        raise NotImplementedError

    def steps(self, topology: Topology) -> list[Step]:
        return cells.shuffled(self.cells(topology), self.request.repeats, self.request.seed)

    def head(self) -> dict[str, Any]:
        about = {"name": self.request.experiment, "missing": self.missing}
        return {"experiment": {**about, "other_users": other_users(Path("/"))}}

    def said_first(self) -> list[str]:
        lines = [f"not measured here: {text}" for text in self.missing]
        noise = unrest(Path("/"))
        others = other_users(Path("/"))
        if others:
            lines.append(f"{count(others, 'other user')} of this machine also run programs")
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
            raise WorkloadError(f"the warm-up did not run: {error}") from None


class Pairs(Experiment):
    """`pairs`."""

    def cells(self, topology: Topology) -> list[Cell]:
        request = self.request
        made, self.missing = pairs.plan(
            topology, full=request.full, only=request.pairs, command=request.command
        )
        return made


class Handoff(Experiment):
    """`handoff`: the frames come after the hand-offs that tell how long a slice is."""

    def steps(self, topology: Topology) -> list[Step]:
        hops, frames, self.missing = handoff.plan(topology)
        repeats, seed = self.request.repeats, self.request.seed
        first = cells.shuffled(hops, repeats, seed)
        return first + cells.shuffled(frames, repeats, seed + 1, after=len(first))

    def enter(self, step: Step, session: Session) -> None:
        handoff.enter(step, session.folder, session.steps)


class Shards(Experiment):
    """`shards`."""

    def cells(self, topology: Topology) -> list[Cell]:
        first = topology.usable[0].cpu if topology.usable else 0
        made, self.missing = shards.plan(topology, self.request.threads, requests.rate(first))
        return made


class Scaling(Experiment):
    """`scaling`."""

    def cells(self, topology: Topology) -> list[Cell]:
        request = self.request
        kernel = Load(request.workload or "sha256", request.variant)
        made, self.missing = scaling.plan_cells(topology, kernel, request.threads)
        if not has_energy():
            self.missing.append("energy: neither powercap nor perf's power events can be read here")
        return made


class SmtBoost(Experiment):
    """`smt-boost`."""

    def __init__(self, request: Request, root: Path = Path("/")) -> None:
        super().__init__(request)
        self._found, self._stuck = knobs.find(root)
        self._states = smt_boost.States(self._found, root)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._states.close()

    def cells(self, topology: Topology) -> list[Cell]:
        self.missing = list(self._stuck)
        if not has_energy():
            self.missing.append("energy: neither powercap nor perf's power events can be read here")
        command = self.request.command
        cores = shards.count(topology, None)
        first = topology.usable[0].cpu if topology.usable else 0
        offered = 0.0 if command else requests.rate(first) * cores
        return smt_boost.plan(self._found, command, offered)

    def enter(self, step: Step, session: Session) -> None:
        self._states.enter(step)


EXPERIMENTS: dict[str, type[Experiment]] = {
    "smt-boost": SmtBoost,
    "pairs": Pairs,
    "scaling": Scaling,
    "handoff": Handoff,
    "shards": Shards,
}


def of(request: Request) -> Conductor:
    """What conducts a request; raises `PlanError` for an experiment that there is not."""
    if request.experiment is None:
        return Conductor(request)
    if request.experiment not in EXPERIMENTS:
        raise PlanError(f"--experiment: there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[request.experiment](request)


def other_users(root: Path) -> int:
    """How many people beside this one have processes; accounts of the system do not count."""
    owners = set()
    for path in (root / "proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            owners.add(path.stat().st_uid)
    return len({uid for uid in owners if _FIRST_PERSON <= uid < _NOBODY and uid != os.getuid()})


def unrest(root: Path) -> str | None:
    """A line where other programs keep the machine busy; None where it is quiet."""
    try:
        load = float((root / "proc/loadavg").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    cpus = os.cpu_count() or 1
    if load <= QUIET_LOAD * cpus:
        return None
    return (
        f"this machine is not quiet (load average {load:.2f} on {cpus} CPUs): intervals will be "
        "wide, and a cell that others disturbed says so"
    )
