"""What surrounds the steps of a collection; experiments extend it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from schedlens.load.session_file import SavedExperiment, Step
from schedlens.machine.topology import Topology
from schedlens.record.host import Host
from schedlens.record.request import Request
from schedlens.record.session import Session


class Conductor:
    """The default adds nothing; each experiment is a subclass."""

    def __init__(self, request: Request, on: Host) -> None:
        self.request = request
        self.host = on
        self.missing: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restores what the cells changed."""

    def steps(self, topology: Topology) -> list[Step]:
        """The plan on this machine. Raises `PlanError`."""
        return self.request.steps(topology)

    def replacements(self, steps: Sequence[Step], disturbed: Collection[str]) -> list[Step]:
        """Steps that repeat disturbed ones; `disturbed` are the names of finished steps."""
        return []

    def shortfall(self, steps: Sequence[Step], disturbed: Collection[str]) -> list[str]:
        """Lines about what remains disturbed in the end."""
        return []

    def about(self) -> SavedExperiment | None:
        """The object `experiment` of session.json."""
        return None

    def said_first(self) -> list[str]:
        """Lines to print before the first step."""
        return []

    def preview(self, step: Step, topology: Topology) -> Step:
        """For a dry run, the step with what is otherwise decided right before it."""
        return step

    def begin(self, topology: Topology) -> None:
        """Called before the first step."""

    def enter(self, step: Step, session: Session) -> Step:
        """Prepares the machine for a step; returns the step as it will run."""
        return step


# The names of the steps of a session folder, among those given, that others disturbed.
Judges = Callable[[Path, Sequence[str]], set[str]]
# Creates the conductor of a request on a host.
Conducts = Callable[[Request, Host], Conductor]
