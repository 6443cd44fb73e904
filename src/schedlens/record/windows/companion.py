"""The user's program in a cell on Windows: bound to a CPU, and timed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from schedlens.errors import WorkloadError
from schedlens.machine import stop_signals
from schedlens.record import workload_program
from schedlens.record.plan import Step
from schedlens.record.windows import conversation


def command(words: Sequence[str], cpu: int | None) -> list[str]:
    """The command that runs a program, on one CPU where one is given."""
    if cpu is None:
        return list(words)
    return [workload_program.program(), "bind", "--cpu", str(cpu), "--", *words]


def cpu_of(step: Step) -> int | None:
    """The CPU that a cell gives the user's program; None: any."""
    facts = (step.cell or {}).get("facts") or {}
    if "command_cpu" in facts:
        return int(facts["command_cpu"])
    alone = step.workload is None and step.planned_cpus
    return step.planned_cpus[0] if alone and step.planned_cpus else None


def is_beside(step: Step) -> bool:
    """Whether a cell has the user's program beside its kernel."""
    return "command_cpu" in ((step.cell or {}).get("facts") or {})


class TimedCommand:
    """A program from its start to its end."""

    def __init__(self, words: Sequence[str], cpu: int | None) -> None:
        # The monotonic clock of older Pythons has steps of 16 ms on Windows.
        self._begin_ns = time.perf_counter_ns()
        self._process: subprocess.Popen[bytes] = conversation.start(
            command(words, cpu), spoken_with=False
        )
        self.took_ns: int | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code; None if it still runs after `seconds`. Then `took_ns` is None too."""
        code = _ended(self._process, seconds)
        if code == 0:
            self.took_ns = time.perf_counter_ns() - self._begin_ns
        return code

    def must(self, seconds: float | None) -> None:
        """The same; raises `WorkloadError` where it ended with an error: its time says nothing."""
        code = self.wait(seconds)
        if code:
            raise WorkloadError(f"the command ended with code {code}")

    def kill(self) -> None:
        """Ends it, whatever its state."""
        conversation.end(self._process)


def _ended(process: subprocess.Popen[bytes], seconds: float | None) -> int | None:
    deadline = None if seconds is None else time.monotonic() + seconds
    with stop_signals.waiting():
        while deadline is None or time.monotonic() < deadline:
            left = conversation.POLL_S if deadline is None else deadline - time.monotonic()
            try:
                return process.wait(max(0.0, min(conversation.POLL_S, left)))
            except subprocess.TimeoutExpired:
                continue
    return None
