"""What sharing a core cost the threads, by their speeds. Times in ns."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate

from planted.moments import interrupts
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.truth import Slice


class _Busy:
    """Busy time of a CPU up to a time."""

    def __init__(self, slices: list[Slice]) -> None:
        slices.sort(key=lambda slice_: (slice_.start, slice_.end))
        self._starts = [slice_.start for slice_ in slices]
        self._lengths = [slice_.end - slice_.start for slice_ in slices]
        self._before = [0, *accumulate(self._lengths)]

    def until(self, ts: int) -> int:
        at = bisect_right(self._starts, ts)
        if not at:
            return 0
        return self._before[at - 1] + min(self._lengths[at - 1], ts - self._starts[at - 1])


def tax(simulation: Simulation) -> dict[int, tuple[int, int, int]]:
    """By thread: time lost with the SMT sibling busy, and its slices alone and shared.

    A slice with the sibling busy for at most 5 % is alone, one of at least 95 % shared. Only
    cores with SMT siblings count.
    """
    slices: dict[int, list[Slice]] = defaultdict(list)
    for slice_ in [*simulation.truth.slices, *interrupts(simulation)]:
        if slice_.end > slice_.start:
            slices[slice_.cpu].append(slice_)
    busy = {cpu: _Busy(list(own)) for cpu, own in slices.items()}
    together: dict[int, int] = defaultdict(int)
    alone: dict[int, int] = defaultdict(int)
    shared: dict[int, int] = defaultdict(int)
    for cpu in simulation.machine.cpus:
        for sibling in simulation.machine.siblings(cpu.cpu):
            for slice_ in slices[cpu.cpu]:
                there = busy.get(sibling)
                ns = there.until(slice_.end) - there.until(slice_.start) if there else 0
                together[slice_.tid] += ns
                alone[slice_.tid] += 20 * ns <= slice_.end - slice_.start
                shared[slice_.tid] += 20 * ns >= 19 * (slice_.end - slice_.start)
    lost = 1 - simulation.machine.shared_speed
    return {tid: (round(ns * lost), alone[tid], shared[tid]) for tid, ns in together.items()}
