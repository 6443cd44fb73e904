"""The truth about a simulated run, measured from what happened and never from its records.

All times in ns; the whole run is the window. A CPU that handles an interrupt is busy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from planted.frame_truth import Frames
from planted.moments import INTERRUPT, Moment, moments
from planted.order_truth import Order
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.truth import Slice

# A chain of hand-offs continues through slices that are this short.
INTERLOPER_NS = 1_000_000
CHAIN_HANDOFFS = 3


@dataclass
class Facts:
    """Sums over a run, by CPU or thread where they have one."""

    simulation: Simulation
    order: Order
    frames: Frames
    crowded_ns: int = 0
    """All CPUs busy, and a thread ready."""
    serial_ns: int = 0
    """Exactly one CPU busy."""
    both_ns: int = 0
    core_busy_ns: int = 0
    sharing_ns: int = 0
    """Threads with a busy SMT sibling for which allowed whole cores were idle."""
    bound_sharing_ns: int = 0
    """The same for threads that only their affinity kept from idle cores."""
    ready_idle_ns: int = 0
    """Ready threads for which allowed CPUs were idle."""
    ready_parked_ns: int = 0
    """Ready time with a parked CPU idle and no other."""
    run_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    slow_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    longest_ready_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    ready_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    fair_ready_ns: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Ready time of each thread if the runnable ones shared the CPUs evenly at each moment."""
    visited_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By CPU: ready time of threads pinned to it while the costliest other thread ran there."""
    chain_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By CPU: time of quantum ends in which one of them waited and another CPU was free."""

    @property
    def window_ns(self) -> int:
        """Length of the run."""
        return self.simulation.now


# Start, end, free CPUs, ready threads.
_Free = tuple[int, int, set[int], set[int]]


def measure(simulation: Simulation, held: frozenset[int] = frozenset()) -> Facts:
    """Everything; `held` are threads of cgroups whose quota was used up.

    The quota is their first obstacle, whatever idles.
    """
    facts = Facts(simulation, Order(simulation), Frames(simulation))
    allowed = {thread.tid: thread.affinity for thread in simulation.threads}
    owners: dict[int, set[int]] = defaultdict(set)
    for tid, cpus in allowed.items():
        if len(cpus) == 1:
            owners[min(cpus)].add(tid)
    visits: dict[tuple[int, int], int] = defaultdict(int)
    cores: dict[int, list[int]] = defaultdict(list)
    for described in simulation.machine.cpus:
        cores[described.core].append(described.cpu)
    every = set(range(len(simulation.machine.cpus)))
    free: list[_Free] = []
    for begin, end, now in moments(simulation):
        dur = end - begin
        _concurrency(facts, now, len(every), dur)
        _fair(facts, now, len(every), dur)
        _sharing(facts, now, cores, allowed, dur)
        _waiting(facts, now, allowed, held, dur)
        facts.order.see(dur, now)
        facts.frames.see(begin, end, now)
        for cpu, tid in now.running.items():
            if owners.get(cpu) and tid not in owners[cpu] and tid != INTERRUPT:
                visits[cpu, tid] += dur * len(owners[cpu] & now.ready.keys())
        if now.ready:
            free.append((begin, end, every - now.running.keys(), set(now.ready)))
    for (cpu, _), ns in visits.items():
        facts.visited_ns[cpu] = max(facts.visited_ns[cpu], ns)
    slow = set(simulation.machine.of_type("E"))
    for slice_ in simulation.truth.slices:
        facts.run_ns[slice_.tid] += slice_.end - slice_.start
        facts.slow_ns[slice_.tid] += (slice_.end - slice_.start) * (slice_.cpu in slow)
    for span in simulation.truth.ready:
        length = span.end - span.start
        facts.longest_ready_ns[span.tid] = max(facts.longest_ready_ns[span.tid], length)
    since = {(span.tid, span.end): span.start for span in simulation.truth.ready}
    for cpu in every:
        facts.chain_ns[cpu] = _chained(simulation, cpu, free, since)
    return facts


def _concurrency(facts: Facts, now: Moment, cpus: int, dur: int) -> None:
    facts.crowded_ns += dur * (len(now.running) == cpus and bool(now.ready))
    facts.serial_ns += dur * (len(now.running) == 1)
    facts.core_busy_ns += dur * len(now.active)
    facts.both_ns += dur * len(now.doubled)


def _fair(facts: Facts, now: Moment, cpus: int, dur: int) -> None:
    running = set(now.running.values()) - {INTERRUPT}
    many = len(running) + len(now.ready)
    for tid in now.ready:
        facts.ready_ns[tid] += dur
    if many > cpus:
        for tid in running | now.ready.keys():
            facts.fair_ready_ns[tid] += dur * (1 - cpus / many)


def _sharing(
    facts: Facts,
    now: Moment,
    cores: dict[int, list[int]],
    allowed: dict[int, frozenset[int]],
    dur: int,
) -> None:
    if not now.doubled or not now.still:
        return
    idle = [open_ for core in now.still if (open_ := set(cores[core]) - now.parked)]
    wishes = []
    for core in now.doubled:
        threads = {now.running[cpu] for cpu in cores[core]} - {INTERRUPT}
        if threads:
            may = frozenset[int]().union(*(allowed[tid] for tid in threads))
            wishes.append({at for at, other in enumerate(idle) if other & may})
    moved = matching(wishes)
    facts.sharing_ns += dur * moved
    facts.bound_sharing_ns += dur * (min(len(wishes), len(idle)) - moved)


def _waiting(
    facts: Facts,
    now: Moment,
    allowed: dict[int, frozenset[int]],
    held: frozenset[int],
    dur: int,
) -> None:
    ready = now.ready.keys() - held
    if not ready or not now.idle:
        return
    open_cpus = now.idle - now.parked
    facts.ready_idle_ns += dur * matching([set(allowed[tid] & open_cpus) for tid in ready])
    facts.ready_parked_ns += dur * sum(
        bool(allowed[tid] & now.idle) and not allowed[tid] & open_cpus for tid in ready
    )


def matching(wishes: Sequence[set[int]]) -> int:
    """Size of the largest matching of wishes to their places."""
    taken: dict[int, int] = {}

    def place(wish: int, seen: set[int]) -> bool:
        for at in wishes[wish]:
            if at not in seen:
                seen.add(at)
                if at not in taken or place(taken[at], seen):
                    taken[at] = wish
                    return True
        return False

    return sum(place(wish, set()) for wish in range(len(wishes)))


def _chained(
    simulation: Simulation, cpu: int, free: list[_Free], since: dict[tuple[int, int], int]
) -> int:
    """The longest needless wait among the quantum ends on this CPU.

    `since`: for thread and end of a ready period, its start.
    """
    slices = sorted(
        (s for s in simulation.truth.slices if s.cpu == cpu and s.end > s.start),
        key=lambda slice_: slice_.start,
    )
    hands = {hand.ts: hand.taker for hand in simulation.truth.handoffs if hand.cpu == cpu}
    slices = whole(slices)
    best = 0
    start, turns = 0, 0
    members: set[int] = set()
    for before, after in pairwise(slices):
        # A thread that waited for only a part of the slice did not wait for the quantum end.
        taker = hands.get(before.end)
        goes_on = (
            taker is not None
            and after.start == before.end
            and since.get((taker, before.end), before.end) <= before.start
        )
        if goes_on:
            if not turns:
                start, members = before.start, {before.tid}
            turns += 1
            members.add(after.tid)
            if turns >= CHAIN_HANDOFFS:
                best = max(best, _free_ns(free, start, after.end, cpu, members))
        else:
            turns = 0
    return best


def whole(slices: list[Slice]) -> list[Slice]:
    """Slices without the short interruptions by others, one after another.

    A short slice interrupts if it starts by preempting the interrupted or an interrupting thread.
    """
    kept: list[Slice] = []
    before: Slice | None = None
    for slice_ in slices:
        last = kept[-1] if kept else slice_
        follows = before is not None and last.why == "preempted" and slice_.start == last.end
        if follows and slice_.tid == last.tid:
            kept[-1] = replace(slice_, start=last.start)
        elif follows and _cuts_in(slice_, before):
            kept[-1] = replace(last, end=slice_.end)
        else:
            kept.append(slice_)
        before = slice_
    return kept


def _cuts_in(slice_: Slice, before: Slice | None) -> bool:
    preempts = before is not None and before.why == "preempted"
    return preempts and slice_.end - slice_.start < INTERLOPER_NS


def _free_ns(free: list[_Free], start: int, end: int, cpu: int, members: set[int]) -> int:
    at = max(0, bisect_right(free, start, key=lambda part: part[0]) - 1)
    spent = 0
    while at < len(free) and free[at][0] < end:
        begin, until, cpus, ready = free[at]
        if cpus - {cpu} and ready & members:
            spent += max(0, min(until, end) - max(begin, start))
        at += 1
    return spent
