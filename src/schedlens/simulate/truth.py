"""What happened in a simulation, independent of the recorder. Times in ns."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Slice:
    """A thread on a CPU, from switch-in to switch-out."""

    tid: int
    cpu: int
    start: int
    end: int
    why: str
    """Why it ended: blocked, quantum_end, preempted, yield, exit, trace_end."""
    priority: int = 0
    """At the start of the slice."""


@dataclass(frozen=True, slots=True)
class ReadySpan:
    """A thread was ready but not running."""

    tid: int
    start: int
    end: int
    priority: int = 0
    """At the end of the span."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as the program and the GPU made it."""

    frame: int
    tid: int
    start: int
    """When the previous Present returned, or the first work began."""
    present: int
    """When Present was called."""
    end: int
    """When Present returned, which starts the next frame."""
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
    """Everything that happened."""

    slices: list[Slice] = field(default_factory=list)
    ready: list[ReadySpan] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    requests: list[tuple[int, int]] = field(default_factory=list)
    """When each request arrived and when it was served, in order of the latter."""
    replaced: int = 0
    """Switch-ins of another thread than planned."""

    def running_ns(self, tid: int, start: int, end: int) -> int:
        """Time on any CPU within [start, end)."""
        return sum(
            max(0, min(each.end, end) - max(each.start, start))
            for each in self.slices
            if each.tid == tid
        )

    def ready_ns(self, tid: int, start: int, end: int) -> int:
        """Time ready within [start, end)."""
        return sum(
            max(0, min(span.end, end) - max(span.start, start))
            for span in self.ready
            if span.tid == tid
        )
