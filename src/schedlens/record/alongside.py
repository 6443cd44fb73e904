"""The user's program in a cell: on its own CPU, alongside a kernel that runs until it ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence

from schedlens.errors import WorkloadError
from schedlens.load.session_file import Step
from schedlens.record.gate import GatedCommand


class Companion:
    """A program that waits at its gate, pinned to a CPU."""

    def __init__(self, command: Sequence[str], cpu: int) -> None:
        self._program = GatedCommand(command)
        pin(self._program.pid, [cpu])

    def run(self, limit_s: float | None) -> int | None:
        """Runs it; returns the time in ns, or None if it still runs after `limit_s`.

        Raises `WorkloadError` if it fails, because its time is then meaningless.
        """
        begin = time.monotonic_ns()
        self._program.go()
        code = self._program.wait(limit_s)
        if code is None:
            return None
        if code != 0:
            raise WorkloadError(f"the command exited with code {code}")
        return time.monotonic_ns() - begin

    def kill(self) -> None:
        """Ends it in any state."""
        self._program.kill()


def pin(pid: int, cpus: Sequence[int]) -> None:
    """Pins a program that has not started. Raises `WorkloadError`."""
    try:
        os.sched_setaffinity(pid, cpus)
    except (OSError, OverflowError, ValueError) as error:
        raise WorkloadError(f"cannot pin the command to CPU {cpus}: {error}") from None


@contextlib.contextmanager
def companion(step: Step, command: Sequence[str]) -> Iterator[Companion | None]:
    """The user's program of a cell, on the cell's first CPU; None if the cell has none."""
    cpu = step.cell.facts.command_cpu if step.cell is not None else None
    if cpu is None:
        yield None
        return
    made = Companion(command, cpu)
    try:
        yield made
    finally:
        made.kill()


def seconds(step: Step, requested: float | None) -> float | None:
    """How long a step runs: the time in its cell, else the requested time."""
    own = step.cell.facts.seconds if step.cell is not None else None
    return requested if own is None else own


def warm_up(step: Step, seconds: float) -> float:
    """The warm-up of a cell's kernels, in s: none alongside a program, which may end before it."""
    is_alongside = step.cell is not None and step.cell.facts.command_cpu is not None
    return 0.0 if is_alongside else seconds
