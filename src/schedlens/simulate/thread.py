"""Programs and their threads, as the scheduler sees them."""

from __future__ import annotations

from dataclasses import dataclass

from schedlens.simulate import script


@dataclass(eq=False)
class Process:
    """A program."""

    pid: int
    name: str


@dataclass(eq=False)
class Thread:
    """A thread and its scheduling state."""

    tid: int
    name: str
    process: Process
    base_priority: int
    affinity: frozenset[int]
    ideal: int
    start_ns: int
    eco: bool = False
    """EcoQoS: prefers E cores."""
    priority: int = 0
    state: str = "new"
    cpu: int | None = None
    last_cpu: int | None = None
    ready_since: int = 0
    quantum_left: int = 0
    work: float = 0.0
    spins: script.Gate | None = None
    steps: script.Script | None = None
    now_ns: int = 0
    """When its last step ended, for its script to read."""
    frames: int = 0
    frame_start: int = 0
    end_ns: int | None = None
