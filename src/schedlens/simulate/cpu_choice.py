"""Which CPU or which queue a ready thread gets, by Windows' rules as far as traces show them.

A ready thread takes its ideal CPU if that is idle, else another idle one (whole P cores, then E
cores, then siblings of busy CPUs), else the allowed CPU that runs the lowest lower priority.
Otherwise it joins the tail of its ideal CPU's queue or, if its mask forbids that, the queue of the
CPU it last ran on. Parked CPUs are used only if the mask allows no other.
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
    """A logical CPU with its running thread and its queues."""

    description: Cpu
    siblings: list[int]
    running: Thread | None = None
    since: int = 0
    slice_start: int = 0
    slice_priority: int = 0
    version: int = 0
    quantum_end: int = FOREVER
    parked: bool = False
    cycles: int = 0
    instructions: int = 0
    queues: list[deque[Thread]] = field(default_factory=lambda: [deque() for _ in range(LEVELS)])

    def queued(self) -> Thread | None:
        """The next thread in the queues of this CPU, highest priority first."""
        # Nearly all are empty.
        queue = next(filter(None, reversed(self.queues)), None)
        return queue[0] if queue else None


class Placement:
    """The CPUs of a machine and the rules that assign threads to them."""

    def __init__(self, machine: Machine, rules: Rules, chance: random.Random) -> None:
        self.cpus = [Core(cpu, machine.siblings(cpu.cpu)) for cpu in machine.cpus]
        self._rules = rules
        self._random = chance

    def home(self, thread: Thread) -> int:
        """The CPU whose queue a ready thread joins."""
        usable = [cpu for cpu in thread.affinity if not self.cpus[cpu].parked]
        candidates = usable or list(thread.affinity)
        if thread.ideal in candidates:
            return thread.ideal
        if thread.last_cpu in candidates and thread.last_cpu is not None:
            return thread.last_cpu
        return min(candidates)

    def idle_cpu(self, thread: Thread) -> int | None:
        """The idle CPU that a ready thread takes; None if there is none that it may use."""
        idle = self._idle_allowed(thread)
        if not idle:
            home = self.cpus[self.home(thread)]
            # The mask may allow only parked CPUs; then one of them must run the thread.
            return home.description.cpu if home.running is None else None
        ideal = self.cpus[thread.ideal]
        if ideal in idle and not thread.eco and not self.sibling_busy(ideal):
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
        """Whole P cores, then E cores, then siblings of busy CPUs; for EcoQoS E cores first."""
        if thread.eco and core.description.core_type == "E":
            return -1
        return 2 if self.sibling_busy(core) else fill_order(core.description)[0]

    def moves_off(self, core: Core, thread: Thread) -> bool:
        """Whether a thread moves when its quantum ends: off a parked CPU if it may use another,
        or to an idle CPU of a better kind."""
        if core.parked and any(not self.cpus[cpu].parked for cpu in thread.affinity):
            return True
        if not self._rules.moves_running:
            return False
        here = self._rank(core, thread)
        return any(self._rank(other, thread) < here for other in self._idle_allowed(thread))

    def sibling_busy(self, core: Core) -> bool:
        """Whether another logical CPU of the same core is busy."""
        # Asked several times for each event: a generator takes three times as long.
        for other in core.siblings:  # noqa: SIM110
            if self.cpus[other].running is not None:
                return True
        return False

    def lower_cpu(self, thread: Thread) -> int | None:
        """The CPU whose thread a ready one may preempt: the one with the lowest lower priority."""
        lower = []
        for cpu in thread.affinity:
            core = self.cpus[cpu]
            running = core.running
            if running is not None and running.priority < thread.priority and not core.parked:
                lower.append((running.priority, cpu != thread.ideal, cpu != thread.last_cpu, cpu))
        return min(lower)[3] if lower else None

    def strands(self, thread: Thread) -> bool:
        """Whether the rules make a thread queue at home although another CPU is idle."""
        share = self._rules.stranded_share
        if not share or self._random.random() >= share:
            return False
        return self.cpus[self.home(thread)].running is not None

    def unqueue(self, thread: Thread) -> None:
        """Removes a thread from its queue."""
        for core in self.cpus:
            queue = core.queues[thread.priority]
            if thread in queue:
                queue.remove(thread)
                return

    def take_for(self, core: Core) -> Thread | None:
        """The thread that a free CPU runs next: from its own queue, else from another CPU's."""
        own = core.queued()
        if own is not None:
            core.queues[own.priority].popleft()
            return own
        if core.parked:
            return None
        best: Thread | None = None
        for other in self.cpus:
            # Nearly all are empty.
            for queue in filter(None, other.queues):
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
