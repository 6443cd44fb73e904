"""How the simulated systems differ, and their time units."""

from __future__ import annotations

from dataclasses import dataclass

# The recorder's clock: QPC at 10 MHz.
TICK_NS = 100
LEVELS = 32
FOREVER = 1 << 62


@dataclass(frozen=True)
class Rules:
    """The scheduling rules of a system."""

    clock_tick_ns: int = 15_625_000
    quantum_ticks: int = 2
    """Clock ticks of a quantum: 2 on a client, 6 for its foreground, 12 on a server."""
    wake_boost: int = 1
    """Priority added to a thread below 16 when a gate wakes it."""
    starved_ns: int = 4_000_000_000
    """A thread that has been ready this long is boosted to 15 once."""
    vsync_ns: int = 16_666_700
    interrupts_per_s: float = 200.0
    """Deferred calls on each CPU."""
    replaced_share: float = 0.0
    """Share of preempting switch-ins whose record names the previously planned thread."""
    stranded_share: float = 0.0
    """Share of wakeups after which a thread queues on its own busy CPU although another is idle,
    as Linux does when it wakes threads near their waker."""
    start_work_ns: int = 0
    """Work of a new thread before its script begins."""
    moves_running: bool = True
    """Whether a thread whose quantum ends moves to a better idle CPU."""

    @property
    def quantum_ns(self) -> int:
        """Length of a quantum."""
        return self.clock_tick_ns * self.quantum_ticks // TICK_NS * TICK_NS
