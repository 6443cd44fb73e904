"""The steps of a thread's program."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


class CannotTellError(Exception):
    """The recording does not show what the change would do; `str()` is the reason."""


@dataclass(frozen=True, slots=True)
class Op:
    """A step of a program: run (work in ns), wait (gate), spin (gate: compute until it opens),
    open (gates), sleep (ns), gap (ns in which it is not known what
    it did, slept), until (ns), take (section), present (GPU time in ns), mark."""

    kind: str
    value: float = 0.0
    gates: tuple[int, ...] = ()


@dataclass
class Program:
    """A thread: who it is, what the scheduler knows about it, and what it does."""

    utid: int
    tid: int
    name: str
    process: str
    upid: int | None
    priority: int
    affinity: list[int]
    ideal: int | None
    eco: bool = False
    affinity_known: bool = True
    bound: bool = False
    """Whether the kernel binds it to its CPU, so that nobody can widen its affinity."""
    ops: list[Op] = field(default_factory=list)
    running_ns: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Recorded, by core type."""
    ready_ns: int = 0
    waiting_ns: int = 0
    unknown_ns: int = 0
    packed: tuple[list[Op], tuple[bytes, bytes, bytes]] | None = None
    """The steps in the form in which they are replayed, with the list that they come from."""
