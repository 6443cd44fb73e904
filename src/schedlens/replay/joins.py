"""Which workers of a pool a thread waited for, of whom only the last one woke it."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from schedlens.replay.ops import Program
from schedlens.replay.recorded_programs import stem

# A worker that wakes a thread more than this many times as often as its mates leads them; of few
# mates it also leads with this share of the wakeups and an equal part of the rest.
LEADS, LEADING_SHARE = 4, 0.5

_woken, _start = attrgetter("woken"), attrgetter("start")

Waits = Mapping[int, Sequence[tuple[int, int]]]
Wakers = Mapping[tuple[int, int], tuple[int | None, bool]]


class _Rest(NamedTuple):
    """A worker that is done: when it was woken for that and by whom, and its wait since then."""

    woken: int
    origin: int | None
    worker: int
    start: int
    end: int


class Pools:
    """The pools of a recording: threads of a process whose names differ in a number only.

    `blocked`: the waits of each thread in order; `by_end`: who ended the wait of a thread at a
    time, and whether in an interrupt.
    """

    def __init__(self, programs: Mapping[int, Program], blocked: Waits, by_end: Wakers) -> None:
        self._blocked, self._by_end = blocked, by_end
        numbers: dict[tuple[int | None, str, int], int] = {}
        self._members: list[list[int]] = []
        self.of: dict[int, int] = {}
        """The pool of each thread."""
        for utid, program in programs.items():
            key = (program.upid, stem(program.name), program.priority)
            number = self.of[utid] = numbers.setdefault(key, len(numbers))
            if number == len(self._members):
                self._members.append([])
            self._members[number].append(utid)
        # By pool: times of waking in order, with what follows them, and the latter by worker.
        self._rests: dict[int, tuple[list[int], list[_Rest], list[list[_Rest]]]] = {}
        self._leaders = self._find_leaders()

    def _find_leaders(self) -> set[int]:
        """Any worker may be the last of a section; a thread that wakes the waiting one much more
        often than its mates do has a role of its own."""
        wakes: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for (utid, _), (waker, in_interrupt) in self._by_end.items():
            if waker in self.of and waker is not None and not in_interrupt:
                wakes[utid][waker] += 1
        leaders = set()
        for utid, found in wakes.items():
            of_pool: dict[int, int] = defaultdict(int)
            for waker, count in found.items():
                of_pool[self.of[waker]] += count
            for waker, count in found.items():
                pool = self.of[waker]
                every, size = of_pool[pool], len(self._members[pool])
                if utid != waker and self.of.get(utid) == pool:
                    every, size = every - found.get(utid, 0), size - 1
                lead = min(LEADS / size, LEADING_SHARE + (1 - LEADING_SHARE) / size)
                if size > 1 and count > lead * every and count > 4:
                    leaders.add(waker)
        return leaders

    def joined(self, utid: int, waker: int, before: int, end: int) -> list[tuple[int, int]]:
        """The mates of `waker` that are done when it ends a wait of `utid`, and since when.

        Only those count that the waiting thread, the waker or one of its mates woke since
        `before`, the end of the last wait: the thread waited for all of them.
        """
        pool = self.of[waker]
        if waker in self._leaders:
            return []
        if utid != waker and self.of.get(utid) == pool and utid not in self._leaders:
            return []
        return [
            (rest.worker, rest.start)
            for rest in self._since(pool, before, end)
            if rest.start < end <= rest.end
            and rest.worker != waker
            and rest.worker not in self._leaders
            and (rest.origin == utid or self._is_worker(rest.origin, pool))
        ]

    def _is_worker(self, utid: int | None, pool: int) -> bool:
        return utid is not None and self.of.get(utid) == pool and utid not in self._leaders

    def _since(self, pool: int, before: int, end: int) -> Iterable[_Rest]:
        """What the workers were woken for since a time: all of it, or the last of each worker."""
        if pool not in self._rests:
            by_worker = [self._of_worker(worker) for worker in self._members[pool]]
            rests = sorted((rest for found in by_worker for rest in found), key=_woken)
            self._rests[pool] = ([rest.woken for rest in rests], rests, by_worker)
        times, known, by_worker = self._rests[pool]
        first, last = bisect_right(times, before), bisect_left(times, end)
        # A thread that rarely waits has many wakeups behind it, a large pool many workers.
        if last - first <= len(by_worker):
            return known[first:last]
        latest = (found[bisect_left(found, end, key=_start) - 1] for found in by_worker if found)
        return (rest for rest in latest if rest.woken > before)

    def _of_worker(self, worker: int) -> list[_Rest]:
        waits = self._blocked.get(worker, ())
        rests = []
        for (_, woken), (start, end) in itertools.pairwise(waits):
            origin, _ = self._by_end.get((worker, woken), (None, True))
            rests.append(_Rest(woken, origin, worker, start, end))
        return rests
