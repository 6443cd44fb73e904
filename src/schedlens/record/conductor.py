"""What surrounds the steps of a collection; experiments extend it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from schedlens.machine.topology import Topology
from schedlens.record.host import Host
from schedlens.record.plan import Step
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

    def head(self) -> dict[str, Any]:
        """What session.json contains in addition to the plan."""
        return {}

    def said_first(self) -> list[str]:
        """Lines to print before the first step."""
        return []

    def preview(self, step: Step, topology: Topology) -> None:
        """For a dry run, fills in what is otherwise decided right before the step."""

    def begin(self, topology: Topology) -> None:
        """Called before the first step."""

    def enter(self, step: Step, session: Session) -> None:
        """Called before each step of the session."""


# Creates the conductor of a request on a host.
Conducts = Callable[[Request, Host], Conductor]
