"""Where a ready thread goes: which CPU, or which queue, by Windows' rules as far as traces show.

A thread made ready takes its ideal CPU if that is idle, else an idle one (whole P cores, E cores,
siblings of busy ones), else the allowed CPU with the lowest lower priority, else the tail of its
ideal CPU's queue, or, where its mask forbids that, of the CPU it last ran on. Parked CPUs are used
only where the mask leaves no other.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from schedlens.simulate.machine import Cpu, Machine
from schedlens.simulate.rules import FOREVER, LEVELS, Rules
from schedlens.simulate.thread import Thread


@dataclass(eq=False)
class Core:
    """A logical CPU and who stands there."""

    description: Cpu
    siblings: list[int]
    running: Thread | None = None
    since: int = 0
    stay_start: int = 0
    stay_priority: int = 0
    version: int = 0
    quantum_end: int = FOREVER
    parked: bool = False
    cycles: int = 0
    instructions: int = 0
    queues: list[deque[Thread]] = field(default_factory=lambda: [deque() for _ in range(LEVELS)])

    def queued(self) -> Thread | None:
        """Who is next in line here, highest priority first."""
        for queue in reversed(self.queues):
            if queue:
                return queue[0]
        return None


class Placement:
    """The CPUs of a machine and the rules by which threads are spread over them."""

    def __init__(self, machine: Machine, rules: Rules, chance: random.Random) -> None:
        self.cpus = [Core(cpu, machine.siblings(cpu.cpu)) for cpu in machine.cpus]
        self._rules = rules
        self._random = chance

    def home(self, thread: Thread) -> int:
        """Whose queue a ready thread joins."""
        usable = [cpu for cpu in thread.affinity if not self.cpus[cpu].parked]
        candidates = usable or list(thread.affinity)
        if thread.ideal in candidates:
            return thread.ideal
        if thread.last_cpu in candidates and thread.last_cpu is not None:
            return thread.last_cpu
        return min(candidates)

    def idle_cpu(self, thread: Thread) -> int | None:
        """The idle CPU that a ready thread takes; None: none that it may use."""
        idle = self._idle_allowed(thread)
        if not idle:
            home = self.cpus[self.home(thread)]
            # Its mask leaves parked CPUs alone: one of them must do.
            return home.description.cpu if home.running is None else None
        ideal = self.cpus[thread.ideal]
        if ideal in idle and not thread.eco and not self.beside_busy(ideal):
            return thread.ideal

        def order(core: Core) -> tuple[int, bool, int]:
            cpu = core.description.cpu
            return (self._rank(core, thread), cpu != thread.last_cpu, cpu)

        return min(idle, key=order).description.cpu

    def _idle_allowed(self, thread: Thread) -> list[Core]:
        return [
            core
            for core in self.cpus
            if core.running is None and not core.parked and core.description.cpu in thread.affinity
        ]

    def _rank(self, core: Core, thread: Thread) -> int:
        """Whole P cores, E cores, siblings of busy ones; for EcoQoS E cores first."""
        if thread.eco and core.description.core_type == "E":
            return -1
        return 2 if self.beside_busy(core) else fill_order(core.description)[0]

    def moves_off(self, core: Core, thread: Thread) -> bool:
        """Whether a thread goes elsewhere when its quantum ends: off a parked CPU if it may use
        another, or to an idle one of a better kind."""
        if core.parked and any(not self.cpus[cpu].parked for cpu in thread.affinity):
            return True
        if not self._rules.moves_running:
            return False
        here = self._rank(core, thread)
        return any(self._rank(other, thread) < here for other in self._idle_allowed(thread))

    def beside_busy(self, core: Core) -> bool:
        """Whether another logical CPU of the same core is busy."""
        return any(self.cpus[other].running is not None for other in core.siblings)

    def lower_cpu(self, thread: Thread) -> int | None:
        """The CPU whose thread a ready one may push aside: that of the lowest lower priority."""
        lower = []
        for cpu in thread.affinity:
            core = self.cpus[cpu]
            running = core.running
            if running is not None and running.priority < thread.priority and not core.parked:
                lower.append((running.priority, cpu != thread.ideal, cpu != thread.last_cpu, cpu))
        return min(lower)[3] if lower else None

    def strands(self, thread: Thread) -> bool:
        """Whether a thread queues at home though another CPU idles, by the rule for that."""
        share = self._rules.stranded_share
        if not share or self._random.random() >= share:
            return False
        return self.cpus[self.home(thread)].running is not None

    def unqueue(self, thread: Thread) -> None:
        """Takes a thread out of the queue that it stands in."""
        for core in self.cpus:
            queue = core.queues[thread.priority]
            if thread in queue:
                queue.remove(thread)
                return

    def take_for(self, core: Core) -> Thread | None:
        """The thread that a free CPU runs next: its own queue's, else one from another's."""
        own = core.queued()
        if own is not None:
            core.queues[own.priority].popleft()
            return own
        if core.parked:
            return None
        best: Thread | None = None
        for other in self.cpus:
            for queue in other.queues:
                for thread in queue:
                    if core.description.cpu in thread.affinity and (
                        best is None
                        or (-thread.priority, thread.ready_since)
                        < (-best.priority, best.ready_since)
                    ):
                        best = thread
        if best is not None:
            self.unqueue(best)
        return best


def fill_order(cpu: Cpu) -> tuple[int, int]:
    """Whole P cores, then E cores, then second siblings."""
    if cpu.smt_index:
        return (2, cpu.cpu)
    return (1 if cpu.core_type == "E" else 0, cpu.cpu)
