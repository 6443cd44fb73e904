"""What really happened in a simulation, whatever a recorder wrote of it. Times in ns."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Stay:
    """A thread on a CPU."""

    tid: int
    cpu: int
    start: int
    end: int
    why: str
    """Why it ended: blocked, quantum_end, preempted, yield, exit, trace_end."""
    priority: int = 0
    """At its begin."""


@dataclass(frozen=True, slots=True)
class ReadySpan:
    """A thread ready and not running."""

    tid: int
    start: int
    end: int
    priority: int = 0
    """At its end."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as the program and the GPU made it."""

    frame: int
    tid: int
    start: int
    """The end of the Present before, or the first begin of work."""
    present: int
    """When Present was called."""
    end: int
    """When Present came back: the next frame's start."""
    gpu_start: int
    gpu_end: int
    displayed: int


@dataclass(frozen=True, slots=True)
class Handoff:
    """A CPU taken at the end of a quantum by a thread that was ready there."""

    ts: int
    cpu: int
    leaver: int
    taker: int


@dataclass
class Truth:
    """All of it."""

    stays: list[Stay] = field(default_factory=list)
    ready: list[ReadySpan] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    replaced: int = 0
    """Switch-ins that came otherwise than planned."""

    def running_ns(self, tid: int, start: int, end: int) -> int:
        """Time on any CPU within [start, end)."""
        return sum(
            max(0, min(stay.end, end) - max(stay.start, start))
            for stay in self.stays
            if stay.tid == tid
        )

    def ready_ns(self, tid: int, start: int, end: int) -> int:
        """Time ready within [start, end)."""
        return sum(
            max(0, min(span.end, end) - max(span.start, start))
            for span in self.ready
            if span.tid == tid
        )
