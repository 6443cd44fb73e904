"""What a recorder writes about a simulated schedule, in time order; times are whole 100 ns."""

from __future__ import annotations

from dataclasses import dataclass

IDLE = 0
"""Thread and process id of every CPU's idle thread."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A context switch; the record names `planned`, but `entered` is the thread that ran."""

    ts: int
    cpu: int
    prev: int
    planned: int
    entered: int
    prev_state: int
    wait_reason: int
    prev_priority: int
    next_priority: int
    prev_ideal: int | None
    cycles: int
    """Of this CPU since the start, while it ran a thread."""
    instructions: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A thread became ready; recorded on the waker's CPU."""

    ts: int
    cpu: int
    tid: int
    waker: int
    in_interrupt: bool


@dataclass(frozen=True, slots=True)
class ThreadStart:
    """A thread is created."""

    ts: int
    cpu: int
    tid: int


@dataclass(frozen=True, slots=True)
class ThreadEnd:
    """A thread ends."""

    ts: int
    cpu: int
    tid: int


@dataclass(frozen=True, slots=True)
class Park:
    """A CPU is parked or unparked."""

    ts: int
    cpu: int
    parked: bool
    soft: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An interrupt or deferred call on a CPU."""

    ts: int
    cpu: int
    dur: int
    kind: str
    """isr or dpc."""


@dataclass(frozen=True, slots=True)
class PriorityChange:
    """A thread's priority changes."""

    ts: int
    cpu: int
    tid: int
    old: int
    new: int
    kind: str
    """base or dynamic."""


@dataclass(frozen=True, slots=True)
class PresentCall:
    """A thread presents a frame."""

    ts: int
    cpu: int
    tid: int
    frame: int


Record = Switch | Ready | ThreadStart | ThreadEnd | Park | Interrupt | PriorityChange | PresentCall
