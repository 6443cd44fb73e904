"""The user's program in a cell on Windows: pinned to a CPU, and timed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence

from schedlens.errors import WorkloadError
from schedlens.load.session_file import Step
from schedlens.machine import stop_signals
from schedlens.record import workload_program
from schedlens.record.windows import conversation


def command(words: Sequence[str], cpu: int | None) -> list[str]:
    """The command that runs a program, on one CPU if one is given."""
    if cpu is None:
        return list(words)
    return [workload_program.program(), "bind", "--cpu", str(cpu), "--", *words]


def cpu_of(step: Step) -> int | None:
    """The CPU of the user's program in a cell; None: any."""
    if step.cell is not None and step.cell.facts.command_cpu is not None:
        return step.cell.facts.command_cpu
    alone = step.workload is None and step.planned_cpus
    return step.planned_cpus[0] if alone and step.planned_cpus else None


def runs_alongside(step: Step) -> bool:
    """Whether a cell runs the user's program alongside its kernel."""
    return step.cell is not None and step.cell.facts.command_cpu is not None


class TimedCommand:
    """Runs a program and measures its time."""

    def __init__(self, words: Sequence[str], cpu: int | None) -> None:
        # The monotonic clock of older Pythons has a resolution of 16 ms on Windows.
        self._begin_ns = time.perf_counter_ns()
        self._process: subprocess.Popen[bytes] = conversation.start(
            command(words, cpu), spoken_with=False
        )
        self.took_ns: int | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait(self, seconds: float | None, stop: Callable[[], bool] = lambda: False) -> int | None:
        """Its exit code; None, with `took_ns` None too, if it still runs after `seconds`.

        `stop` is asked now and then, and ends the wait if it is true.
        """
        code = _ended(self._process, seconds, stop)
        if code == 0:
            self.took_ns = time.perf_counter_ns() - self._begin_ns
        return code

    def must(self, seconds: float | None) -> None:
        """The same. Raises `WorkloadError` if it fails, because its time is then meaningless."""
        code = self.wait(seconds)
        if code:
            raise WorkloadError(f"the command exited with code {code}")

    def kill(self) -> None:
        """Ends it in any state."""
        conversation.end(self._process)


def _ended(
    process: subprocess.Popen[bytes], seconds: float | None, stop: Callable[[], bool]
) -> int | None:
    deadline = None if seconds is None else time.monotonic() + seconds
    with stop_signals.waiting():
        while deadline is None or time.monotonic() < deadline:
            left = conversation.POLL_S if deadline is None else deadline - time.monotonic()
            try:
                return process.wait(max(0.0, min(conversation.POLL_S, left)))
            except subprocess.TimeoutExpired:
                if stop():
                    return None
    return None
