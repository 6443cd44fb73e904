"""What sharing a core cost the threads, from their speeds. Times in ns."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate

from planted.moments import interrupts
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.truth import Slice


class _Busy:
    """How long a CPU has been busy up to a time."""

    def __init__(self, stays: list[Slice]) -> None:
        stays.sort(key=lambda stay: (stay.start, stay.end))
        self._starts = [stay.start for stay in stays]
        self._lengths = [stay.end - stay.start for stay in stays]
        self._before = [0, *accumulate(self._lengths)]

    def until(self, ts: int) -> int:
        at = bisect_right(self._starts, ts)
        if not at:
            return 0
        return self._before[at - 1] + min(self._lengths[at - 1], ts - self._starts[at - 1])


def tax(simulation: Simulation) -> dict[int, tuple[int, int, int]]:
    """By thread: time lost beside busy siblings, and its stays alone and shared.

    A stay that is at most 5 % beside a busy sibling is alone, one of at least 95 % shared. Only
    cores that have a sibling count.
    """
    stays: dict[int, list[Slice]] = defaultdict(list)
    for stay in [*simulation.truth.slices, *interrupts(simulation)]:
        if stay.end > stay.start:
            stays[stay.cpu].append(stay)
    busy = {cpu: _Busy(list(own)) for cpu, own in stays.items()}
    beside: dict[int, int] = defaultdict(int)
    alone: dict[int, int] = defaultdict(int)
    shared: dict[int, int] = defaultdict(int)
    for cpu in simulation.machine.cpus:
        for sibling in simulation.machine.siblings(cpu.cpu):
            for stay in stays[cpu.cpu]:
                there = busy.get(sibling)
                ns = there.until(stay.end) - there.until(stay.start) if there else 0
                beside[stay.tid] += ns
                alone[stay.tid] += 20 * ns <= stay.end - stay.start
                shared[stay.tid] += 20 * ns >= 19 * (stay.end - stay.start)
    lost = 1 - simulation.machine.shared_speed
    return {tid: (round(ns * lost), alone[tid], shared[tid]) for tid, ns in beside.items()}
