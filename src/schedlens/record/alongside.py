"""The user's program in a cell: on a CPU of its own, beside a kernel that runs until it ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence

from schedlens.errors import WorkloadError
from schedlens.record.gate import GatedCommand
from schedlens.record.plan import Step


class Companion:
    """A program at the gate, bound to a CPU."""

    def __init__(self, command: Sequence[str], cpu: int) -> None:
        self._program = GatedCommand(command)
        pin(self._program.pid, [cpu])

    def run(self, limit_s: float | None) -> int | None:
        """Lets it run; how long it took in ns, None if it was still running after `limit_s`.

        Raises `WorkloadError` where it ended with an error: then its time says nothing.
        """
        begin = time.monotonic_ns()
        self._program.go()
        code = self._program.wait(limit_s)
        if code is None:
            return None
        if code != 0:
            raise WorkloadError(f"the command ended with code {code}")
        return time.monotonic_ns() - begin

    def kill(self) -> None:
        """Ends it, whatever its state."""
        self._program.kill()


def pin(pid: int, cpus: Sequence[int]) -> None:
    """Binds a program that has not begun; raises `WorkloadError`."""
    try:
        os.sched_setaffinity(pid, cpus)
    except OSError as error:
        raise WorkloadError(
            f"the command cannot be bound to CPU {cpus}: {error.strerror}"
        ) from None


@contextlib.contextmanager
def companion(step: Step, command: Sequence[str]) -> Iterator[Companion | None]:
    """The program of a cell that has one beside its kernel, on the cell's first CPU."""
    facts = (step.cell or {}).get("facts") or {}
    if "command_cpu" not in facts:
        yield None
        return
    made = Companion(command, int(facts["command_cpu"]))
    try:
        yield made
    finally:
        made.kill()


def seconds(step: Step, asked: float | None) -> float | None:
    """How long a step runs: as its cell says, else as was asked for."""
    facts = (step.cell or {}).get("facts") or {}
    return float(facts["seconds"]) if "seconds" in facts else asked
