"""A recording as programs that can be replayed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from schedlens.replay.core_speeds import RecordedMachine
from schedlens.replay.cpu_limits import CpuLimit
from schedlens.replay.linux_rules import LinuxRules
from schedlens.replay.ops import Program
from schedlens.replay.work import Goal, Watched


@dataclass
class Recorded:
    """A recording as programs."""

    trace_id: int
    label: str
    duration_ns: int
    machine: RecordedMachine
    programs: dict[int, Program]
    frames: dict[int, list[int]]
    """Recorded lengths in order, by presenting thread."""
    parking: list[tuple[int, int, bool, bool]]
    """Time, index of the CPU, parked, soft."""
    quantum_ns: int
    wake_boost: int
    has_gpu: bool
    needed: dict[int, int]
    """How many threads must open a gate before it lets its wait pass."""
    sections: dict[int, list[float]]
    """Jobs that any worker of a pool takes, by the gate that opens when all are done; in ns."""
    switches: int
    waits: dict[str, int]
    """Number of waits by what ended them: thread, pool, timer, device, unknown."""
    linux: LinuxRules | None = None
    """None: the rules of Windows."""
    watched: Watched | None = None
    goal: Goal | None = None
    """Of the watched process; None if it did nothing."""
    limits: list[CpuLimit] = field(default_factory=list)
    """Quotas of CPU time, with the rules of Windows."""
    moves_running: bool = True
    """Whether a thread moves to a better idle CPU when its quantum ends (Windows)."""
    starving: frozenset[int] = frozenset()
    """Watched threads that were woken and hardly ran: what they would do is not recorded."""
    stranded_share: float = 0.0
    """Share of wakeups after which a thread queues on its own busy CPU although another that it
    may use is idle (Windows)."""
    khz: dict[int, float] = field(default_factory=dict)
    """Mean frequency by index of the CPU, while it ran threads."""

    @property
    def spinning(self) -> set[int]:
        """Threads that spin until another one acts, as far as that is recognized."""
        return {
            utid
            for utid, program in self.programs.items()
            if any(op.kind == "spin" for op in program.ops)
        }


def stem(name: str) -> str:
    """The name of a thread without its number: `Worker 3` is one of `Worker`."""
    return re.sub(r"[\s#_-]*\d+$", "", name)
