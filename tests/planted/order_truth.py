"""Who delayed whom, and who had a better place: by priority, core, and pool. Times in ns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from planted.moments import INTERRUPT, Moment
from schedlens.simulate.scheduler import Simulation


class Order:
    """Sums over a run."""

    def __init__(self, simulation: Simulation) -> None:
        self._allowed = {thread.tid: thread.affinity for thread in simulation.threads}
        self._fast = {cpu.cpu for cpu in simulation.machine.cpus if cpu.core_type != "E"}
        self._cores = {cpu.cpu: cpu.core for cpu in simulation.machine.cpus}
        of_core: dict[int, set[int]] = defaultdict(set)
        for cpu, core in self._cores.items():
            of_core[core].add(cpu)
        self._of_core = of_core
        self._home = {
            tid: min(self._cores[cpu] for cpu in cpus)
            for tid, cpus in self._allowed.items()
            if len({self._cores[cpu] for cpu in cpus}) == 1
        }
        self.inverted_ns = 0
        """Running time of threads while an allowed thread of higher priority was ready."""
        self.above_on_e_ns = 0
        """Running time on P cores while an allowed thread of higher priority ran on an E core."""
        self.e_beside_p_ns: dict[int, int] = defaultdict(int)
        """By thread: on an E core while a whole P core that it may use was idle."""
        self.paired_ns: dict[int, dict[tuple[int, int], int]] = defaultdict(
            lambda: defaultdict(int)
        )
        """By core and pair: together there, both bound to it, another whole core idle."""

    def see(self, dur: int, now: Moment) -> None:
        """Counts a moment of this length."""
        ready = [
            (priority, self._allowed[tid])
            for tid, priority in now.ready.items()
            if len(self._allowed[tid]) > 1
        ]
        slow = [
            (now.priority[cpu], self._allowed[tid])
            for cpu, tid in now.running.items()
            if cpu not in self._fast and tid != INTERRUPT and len(self._allowed[tid]) > 1
        ]
        highest = max((priority for priority, _ in (*ready, *slow)), default=0)
        if highest:
            for cpu, tid in now.running.items():
                own = now.priority[cpu]
                if tid == INTERRUPT or own >= highest:
                    continue
                self.inverted_ns += dur * any(p > own and cpu in may for p, may in ready)
                if cpu in self._fast:
                    self.above_on_e_ns += dur * any(p > own and cpu in may for p, may in slow)
        if now.still:
            self._places(dur, now)

    def _places(self, dur: int, now: Moment) -> None:
        usable = [core for core in now.still if not self._of_core[core] <= now.parked]
        if not usable:
            return
        fast = set[int]().union(
            *(self._of_core[core] - now.parked for core in usable if core in self._fast)
        )
        bound: dict[int, list[int]] = defaultdict(list)
        for cpu, tid in now.running.items():
            if tid == INTERRUPT:
                continue
            if cpu not in self._fast and self._allowed[tid] & fast:
                self.e_beside_p_ns[tid] += dur
            if self._home.get(tid) == self._cores[cpu]:
                bound[self._cores[cpu]].append(tid)
        for core, tids in bound.items():
            for one, other in combinations(sorted(tids), 2):
                self.paired_ns[core][one, other] += dur


def by_priority(simulation: Simulation) -> dict[int, tuple[int, int]]:
    """Running and ready time of each priority; for threads that got a CPU in the end."""
    run: dict[int, int] = defaultdict(int)
    ready: dict[int, int] = defaultdict(int)
    for slice_ in simulation.truth.slices:
        run[slice_.priority] += slice_.end - slice_.start
    for span in simulation.truth.ready:
        if span.end < simulation.now:
            ready[span.priority] += span.end - span.start
    return {priority: (ns, ready[priority]) for priority, ns in run.items()}


def pools(simulation: Simulation) -> Iterator[tuple[str, int, float]]:
    """For each pool: its process, its threads that ran, and its ready share in percent."""
    pool_of = {
        thread.tid: (thread.process.name, re.sub("[0-9]+", "#", thread.name))
        for thread in simulation.threads
    }
    run: dict[tuple[str, str], int] = defaultdict(int)
    ready: dict[tuple[str, str], int] = defaultdict(int)
    members: dict[tuple[str, str], set[int]] = defaultdict(set)
    for slice_ in simulation.truth.slices:
        if slice_.end > slice_.start:
            run[pool_of[slice_.tid]] += slice_.end - slice_.start
            members[pool_of[slice_.tid]].add(slice_.tid)
    for span in simulation.truth.ready:
        ready[pool_of[span.tid]] += span.end - span.start
    for pool, ns in run.items():
        yield pool[0], len(members[pool]), 100 * ready[pool] / (ready[pool] + ns)
