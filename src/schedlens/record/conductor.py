"""What goes with the steps of a collection; the experiments add to it."""

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
    """Nothing is added where no experiment is asked for; the subclasses are the experiments."""

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
        """Puts back what the cells changed."""

    def steps(self, topology: Topology) -> list[Step]:
        """The plan on this machine; raises `PlanError`."""
        return self.request.steps(topology)

    def head(self) -> dict[str, Any]:
        """What session.json contains in addition to the plan."""
        return {}

    def said_first(self) -> list[str]:
        """Lines for the user before the first step."""
        return []

    def preview(self, step: Step, topology: Topology) -> None:
        """Fills in, for a dry run, what is else decided before the step."""

    def begin(self, topology: Topology) -> None:
        """Before the first step."""

    def enter(self, step: Step, session: Session) -> None:
        """Before a step of the session."""


# What conducts a request on a host.
Conducts = Callable[[Request, Host], Conductor]
