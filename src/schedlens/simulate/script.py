"""What a thread can do: its script yields these in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schedlens.simulate.codes import USER_REQUEST

if TYPE_CHECKING:
    from schedlens.simulate.thread import Thread


@dataclass(eq=False)
class Gate:
    """A counting semaphore."""

    name: str
    count: int = 0
    waiting: deque[Thread] = field(default_factory=deque)
    spinning: list[Thread] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """Computes; `work_ns` is the time that it takes on the fastest core alone."""

    work_ns: float


@dataclass(frozen=True)
class Wait:
    """Waits until the gate has been signalled once for it."""

    gate: Gate
    reason: int = USER_REQUEST


@dataclass(frozen=True)
class Spin:
    """Burns CPU time until the gate has been signalled once for it; never yields."""

    gate: Gate


@dataclass(frozen=True)
class Signal:
    """Lets `count` waits pass."""

    gate: Gate
    count: int = 1


@dataclass(frozen=True)
class SignalEach:
    """Lets one wait pass at each of several gates, at the cost of one signal."""

    gates: tuple[Gate, ...]


@dataclass(frozen=True)
class Sleep:
    """Waits for a time."""

    ns: int


@dataclass(frozen=True)
class SleepUntil:
    """Waits until a time in the recording, in ns; returns at once if it has passed."""

    at_ns: int


@dataclass(frozen=True)
class Yield:
    """Offers the rest of its quantum to a ready thread of its priority."""


@dataclass(frozen=True)
class SetPriority:
    """Changes its own base priority."""

    priority: int


@dataclass(frozen=True)
class Present:
    """Presents a frame whose GPU work takes `gpu_ns`; waits while too many are in flight."""

    gpu_ns: int


Action = (
    Run | Wait | Spin | Signal | SignalEach | Sleep | SleepUntil | Yield | SetPriority | Present
)
Script = Generator[Action, None, None]
Body = Callable[["Thread"], Script]
