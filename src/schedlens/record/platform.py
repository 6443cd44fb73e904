"""What a system provides for the collection loop; linux/ and windows/ each implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from schedlens.load.session_file import SessionFile, Step, SystemFacts
from schedlens.load.step_file import StepFile
from schedlens.machine.topology import Topology
from schedlens.record.conductor import Conductor
from schedlens.record.host import Host
from schedlens.record.request import Request
from schedlens.record.session import Session


class Recorder(Protocol):
    """Records the steps of one session."""

    def run(self, step: Step, folder: Path) -> StepFile:
        """Runs a step in its empty folder and writes step.json last; returns its content.

        If the user interrupts a recording, it is kept (`interrupted`); in the step of a workload
        or an experiment, KeyboardInterrupt is raised instead. Raises `NoSpaceError` for a full
        disk, and another `SchedlensError` for a failed step, which has no step.json.
        """
        ...


class Platform(ABC):
    """A system to record on, and its recorder."""

    @property
    @abstractmethod
    def host(self) -> Host:
        """What an experiment may read and change."""

    @abstractmethod
    def changing(self) -> AbstractContextManager[None]:
        """Inside, the machine may be changed; afterwards the changes are undone."""

    @abstractmethod
    def resolved(self, request: Request) -> Request:
        """The request with the named process. Raises `SessionError` if there is none."""

    @abstractmethod
    def topology(self) -> Topology:
        """The logical CPUs of this machine."""

    @abstractmethod
    def prepare(self, request: Request, machine: Topology) -> None:
        """Finds the best permitted recorder. Raises `RecorderError` or `PlanError`."""

    @abstractmethod
    def facts(self) -> SystemFacts:
        """What session.json contains about the system."""

    @abstractmethod
    def check_same(self, before: SessionFile, folder: Path) -> None:
        """Raises `SessionError` if the recorder differs from that of the session."""

    @abstractmethod
    def lacks(self) -> list[str]:
        """What a recording lacks, and how to get it."""

    @abstractmethod
    def recorder(self, request: Request, session: Session) -> Recorder:
        """The recorder of a session."""

    @abstractmethod
    def cost_s(self, step: Step, request: Request) -> float:
        """Seconds that a step is expected to take."""

    @abstractmethod
    def remarks(self, row: StepFile) -> list[str]:
        """What the line about a finished step says in addition to duration and throughput."""

    @abstractmethod
    def summary(self, rows: list[StepFile]) -> list[str]:
        """Lines about all finished steps."""

    @abstractmethod
    def undo(self, session: Session) -> list[str]:
        """Undoes the changes and notes that in the session; returns a line for each."""

    @abstractmethod
    def quoted(self, folder: Path) -> str:
        """The folder as the user would type it on this system."""

    @abstractmethod
    def preview(
        self, conductor: Conductor, machine: Topology, steps: list[Step], output: Path | None
    ) -> list[str]:
        """Lines of a dry run: every command of the first step."""
