"""A service in a cell: started or found, warmed up under its own load, and asked what it served."""

from __future__ import annotations

import time
from dataclasses import replace

from schedlens.errors import WorkloadError
from schedlens.load.measured_cell import SERVICE
from schedlens.load.session_file import Step
from schedlens.load.step_file import Served
from schedlens.record import load_report
from schedlens.record.gate import GatedCommand
from schedlens.record.linux.followed import Followed
from schedlens.record.load_report import Report

_NO_REPORT = "no --load-report counts its requests"
# How often to check whether it still runs.
_WATCH_S = 0.5


class LiveService:
    """`command` serves until it is stopped; None: the service of `followed` runs already."""

    def __init__(
        self, followed: Followed, command: GatedCommand | None, report: str | None, warm_up: float
    ) -> None:
        self._followed = followed
        self._command = command
        self._report = report
        self._warm_up = warm_up
        self._before: Report | None = None
        self._why = _NO_REPORT

    def begin(self) -> None:
        """Starts it, lets it warm up, and reads its counts. Raises `WorkloadError` if it ended."""
        if self._command is not None:
            self._command.go()
        self.wait(self._warm_up)
        self._before = self._counts()

    def wait(self, seconds: float) -> None:
        """Lets it serve. Raises `WorkloadError` if it ends before."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            if not self._followed.running():
                code = self._command.wait(0) if self._command is not None else None
                why = "" if code is None else f" with code {code}"
                raise WorkloadError(f"the service ({self._followed}) ended{why}")
            if left <= 0:
                return
            time.sleep(min(left, _WATCH_S))

    def served(self) -> Served:
        """What it served since `begin`, or why that is unknown."""
        after = self._counts() if self._before is not None else None
        if self._before is None or after is None:
            found = Served(why=self._why)
        else:
            found = load_report.growth(self._before, after)
        return replace(found, pids=tuple(self._followed.pids))

    def _counts(self) -> Report | None:
        if self._report is None:
            return None
        try:
            return load_report.read(self._report)
        except WorkloadError as error:
            self._why = str(error)
            return None


def of(
    step: Step,
    followed: Followed,
    command: GatedCommand | None,
    report: str | None,
    warm_up: float,
) -> LiveService | None:
    """The service of a cell; None if the cell has none."""
    if step.cell is None or step.cell.facts.load != SERVICE:
        return None
    return LiveService(followed, command, report, warm_up)
