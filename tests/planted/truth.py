"""What is true of a simulated run, measured from what happened and never from its records.

All times in ns; the whole run is the window. A CPU that handles an interrupt is busy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from schedlens.simulate.records import Interrupt, Park
from schedlens.simulate.rules import FOREVER
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.truth import Frame, Stay

MIN_IDLE_NS = 100_000
# Stands for an interrupt where a thread is named.
INTERRUPT = -1
# A chain of hand-overs goes on through stays that are this short.
INTERLOPER_NS = 1_000_000
CHAIN_HANDOFFS = 3
NEIGHBOURS = 15


@dataclass
class Facts:
    """Sums over a run, by CPU or thread where they have one."""

    window_ns: int
    crowded_ns: int = 0
    """All CPUs busy, and a thread ready."""
    serial_ns: int = 0
    """Exactly one CPU busy."""
    both_ns: int = 0
    core_busy_ns: int = 0
    sharing_ns: int = 0
    """Threads beside a busy sibling that whole idle cores allowed to them had room for."""
    bound_sharing_ns: int = 0
    """The same that only their masks kept from idle cores."""
    ready_idle_ns: int = 0
    """Ready threads that idle CPUs allowed to them had room for."""
    ready_parked_ns: int = 0
    """Ready time with a parked CPU idle and no other."""
    run_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    slow_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    longest_ready_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    visited_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By CPU: ready time of those pinned to it while the costliest other thread ran there."""
    chain_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By CPU: time of turns by the clock in which one of them waited and another CPU was free."""
    stutter: dict[str, float] = field(default_factory=dict)
    """By process: how far its worst frame reaches the marks of a stutter."""


# Begin, end, CPUs that are free, threads that are ready.
_Free = tuple[int, int, set[int], set[int]]


@dataclass
class _Moment:
    """Who is where."""

    running: dict[int, int]
    idle: set[int]
    """CPUs in an idle spell of at least 100 us."""
    ready: set[int]
    parked: set[int]


def measure(simulation: Simulation) -> Facts:
    """All of it."""
    facts = Facts(simulation.now)
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
    for begin, end, now in _moments(simulation):
        dur = end - begin
        _concurrency(facts, now, cores, dur)
        _sharing(facts, now, cores, allowed, dur)
        _waiting(facts, now, allowed, dur)
        for cpu, tid in now.running.items():
            if owners.get(cpu) and tid not in owners[cpu] and tid != INTERRUPT:
                visits[cpu, tid] += dur * len(owners[cpu] & now.ready)
        if now.ready:
            free.append((begin, end, every - now.running.keys(), set(now.ready)))
    for (cpu, _), ns in visits.items():
        facts.visited_ns[cpu] = max(facts.visited_ns[cpu], ns)
    slow = set(simulation.machine.of_type("E"))
    for stay in simulation.truth.stays:
        facts.run_ns[stay.tid] += stay.end - stay.start
        facts.slow_ns[stay.tid] += (stay.end - stay.start) * (stay.cpu in slow)
    for span in simulation.truth.ready:
        if span.end < simulation.now:
            length = span.end - span.start
            facts.longest_ready_ns[span.tid] = max(facts.longest_ready_ns[span.tid], length)
    for cpu in range(len(simulation.machine.cpus)):
        facts.chain_ns[cpu] = _chained(simulation, cpu, free)
    owner = {thread.tid: thread.process.name for thread in simulation.threads}
    for name in set(owner.values()):
        frames = [frame for frame in simulation.truth.frames if owner[frame.tid] == name]
        if frames:
            facts.stutter[name] = worst_frame(frames)
    return facts


def _moments(simulation: Simulation) -> Iterator[tuple[int, int, _Moment]]:
    """(begin, end, state) of every stretch in which nothing changes."""
    edges: list[tuple[int, int, str, int, int]] = []
    last = [0] * len(simulation.machine.cpus)
    stays = [*simulation.truth.stays, *_interrupts(simulation)]
    stays.sort(key=lambda stay: (stay.start, stay.end))

    def idle(cpu: int, begin: int, end: int) -> None:
        if end - begin >= MIN_IDLE_NS:
            edges.append((begin, 1, "idle", cpu, 0))
            edges.append((end, 0, "idle", cpu, 0))

    for stay in stays:
        if stay.end > stay.start:
            edges.append((stay.start, 1, "run", stay.cpu, stay.tid))
            edges.append((stay.end, 0, "run", stay.cpu, stay.tid))
            idle(stay.cpu, last[stay.cpu], stay.start)
            last[stay.cpu] = stay.end
    for cpu, since in enumerate(last):
        idle(cpu, since, simulation.now)
    for span in simulation.truth.ready:
        if span.end > span.start:
            edges.append((span.start, 1, "ready", 0, span.tid))
            edges.append((span.end, 0, "ready", 0, span.tid))
    for record in simulation.records:
        if isinstance(record, Park):
            edges.append((record.ts, int(record.parked), "park", record.cpu, 0))
    edges.sort(key=lambda edge: edge[:2])
    now = _Moment({}, set(), set(), set())
    before = 0
    for ts, begins, kind, cpu, tid in edges:
        if ts > before:
            yield before, ts, now
            before = ts
        if kind == "run" and begins:
            now.running[cpu] = tid
        elif kind == "run":
            del now.running[cpu]
        else:
            group = {"idle": now.idle, "ready": now.ready, "park": now.parked}[kind]
            member = tid if kind == "ready" else cpu
            (group.add if begins else group.discard)(member)
    if simulation.now > before:
        yield before, simulation.now, now


def _interrupts(simulation: Simulation) -> Iterator[Stay]:
    """The interrupts of each CPU where no thread runs, as stays."""
    stays = defaultdict(list)
    for stay in simulation.truth.stays:
        if stay.end > stay.start:
            stays[stay.cpu].append((stay.start, stay.end))
    for busy in stays.values():
        busy.sort()
    for record in simulation.records:
        if not isinstance(record, Interrupt):
            continue
        since, until = record.ts, min(record.ts + record.dur, simulation.now)
        busy = stays[record.cpu]
        at = max(0, bisect_right(busy, (since, FOREVER)) - 1)
        for start, end in busy[at:]:
            if start >= until:
                break
            if start > since:
                yield Stay(INTERRUPT, record.cpu, since, start, "interrupt")
            since = max(since, end)
        if since < until:
            yield Stay(INTERRUPT, record.cpu, since, until, "interrupt")


def _concurrency(facts: Facts, now: _Moment, cores: dict[int, list[int]], dur: int) -> None:
    cpus = sum(len(group) for group in cores.values())
    facts.crowded_ns += dur * (len(now.running) == cpus and bool(now.ready))
    facts.serial_ns += dur * (len(now.running) == 1)
    for group in cores.values():
        busy = sum(cpu in now.running for cpu in group)
        facts.core_busy_ns += dur * (busy > 0 and len(group) > 1)
        facts.both_ns += dur * (busy > 1)


def _sharing(
    facts: Facts,
    now: _Moment,
    cores: dict[int, list[int]],
    allowed: dict[int, frozenset[int]],
    dur: int,
) -> None:
    shared = [
        group
        for group in cores.values()
        if len(group) > 1
        and all(cpu in now.running for cpu in group)
        and any(now.running[cpu] != INTERRUPT for cpu in group)
    ]
    idle = [
        group
        for group in cores.values()
        if all(cpu in now.idle for cpu in group) and not all(cpu in now.parked for cpu in group)
    ]
    if not shared or not idle:
        return
    wishes = []
    for group in shared:
        threads = {now.running[cpu] for cpu in group} - {INTERRUPT}
        may = frozenset[int]().union(*(allowed[tid] for tid in threads))
        wishes.append(
            {at for at, other in enumerate(idle) if any(c in may - now.parked for c in other)}
        )
    moved = matching(wishes)
    facts.sharing_ns += dur * moved
    facts.bound_sharing_ns += dur * (min(len(shared), len(idle)) - moved)


def _waiting(facts: Facts, now: _Moment, allowed: dict[int, frozenset[int]], dur: int) -> None:
    if not now.ready or not now.idle:
        return
    open_cpus = now.idle - now.parked
    facts.ready_idle_ns += dur * matching([set(allowed[tid] & open_cpus) for tid in now.ready])
    facts.ready_parked_ns += dur * sum(
        bool(allowed[tid] & now.idle) and not allowed[tid] & open_cpus for tid in now.ready
    )


def matching(wishes: Sequence[set[int]]) -> int:
    """Size of the largest matching, each wish to one of its places."""
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


def _chained(simulation: Simulation, cpu: int, free: list[_Free]) -> int:
    """Of the turns by the clock on this CPU, the longest time that one waited needlessly."""
    stays = sorted(
        (s for s in simulation.truth.stays if s.cpu == cpu and s.end > s.start),
        key=lambda stay: stay.start,
    )
    hands = {hand.ts for hand in simulation.truth.handoffs if hand.cpu == cpu}
    stays = _whole(stays, hands)
    best = 0
    start, turns = 0, 0
    members: set[int] = set()
    for before, after in pairwise(stays):
        goes_on = before.end in hands and after.start == before.end
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


def _whole(stays: list[Stay], hands: set[int]) -> list[Stay]:
    """Stays without short ones between; a thread cut by them is in one stay."""
    kept: list[Stay] = []
    for stay in stays:
        if stay.end - stay.start < INTERLOPER_NS and stay.end not in hands:
            continue
        gap = stay.start - kept[-1].end if kept else 0
        if kept and kept[-1].tid == stay.tid and 0 <= gap < INTERLOPER_NS:
            kept[-1] = Stay(stay.tid, stay.cpu, kept[-1].start, stay.end, stay.why)
        else:
            kept.append(stay)
    return kept


def _free_ns(free: list[_Free], start: int, end: int, cpu: int, members: set[int]) -> int:
    at = max(0, bisect_right(free, start, key=lambda part: part[0]) - 1)
    spent = 0
    while at < len(free) and free[at][0] < end:
        begin, until, cpus, ready = free[at]
        if cpus - {cpu} and ready & members:
            spent += max(0, min(until, end) - max(begin, start))
        at += 1
    return spent


def worst_frame(frames: Sequence[Frame]) -> float:
    """How far the worst frame reaches the two marks of a stutter, the lesser of both.

    The marks are 1.5 times what is usual and 4 ms more; usual is the median of the frames around
    it, or that of all where it is shorter.
    """
    lengths = [frame.end - frame.start for frame in frames]
    worst, over_all = 0.0, median(lengths)
    for at, length in enumerate(lengths):
        usual = min(over_all, median(lengths[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]))
        worst = max(worst, min(length / (1.5 * usual), (length - usual) / 4e6))
    return worst
