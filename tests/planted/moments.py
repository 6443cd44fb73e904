"""A simulated run as a row of moments in which nothing changes. Times in ns."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from schedlens.simulate.emitted import (
    Interrupt,
    Park,
)
from schedlens.simulate.rules import FOREVER
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.truth import Slice

MIN_IDLE_NS = 100_000
# Stands for an interrupt where a thread is named.
INTERRUPT = -1
# Priority of one that the run leaves ready.
UNKNOWN = -1


@dataclass
class Moment:
    """Who is where."""

    running: dict[int, int] = field(default_factory=dict)
    """By CPU: the thread, or INTERRUPT where none runs."""
    priority: dict[int, int] = field(default_factory=dict)
    """By CPU: that of the stay, at its begin."""
    active: set[int] = field(default_factory=set)
    """Cores with siblings of which at least one is busy."""
    doubled: set[int] = field(default_factory=set)
    """Cores of which both are."""
    idle: set[int] = field(default_factory=set)
    """CPUs in an idle spell of at least 100 us."""
    still: set[int] = field(default_factory=set)
    """Cores all of whose CPUs idle, for at least 100 us on end."""
    ready: dict[int, int] = field(default_factory=dict)
    """Threads, and the priority with which they will run; UNKNOWN where the run ends before."""
    parked: set[int] = field(default_factory=set)


def moments(simulation: Simulation) -> Iterator[tuple[int, int, Moment]]:
    """(begin, end, state) of every stretch in which nothing changes; the state is one object."""
    now, before = Moment(), 0
    core_of = {cpu.cpu: cpu.core for cpu in simulation.machine.cpus}
    siblings = {cpu: simulation.machine.siblings(cpu) for cpu in core_of}
    for ts, begins, kind, place, value in _edges(simulation):
        if ts > before:
            yield before, ts, now
            before = ts
        if kind == "run":
            if begins:
                now.running[place], now.priority[place] = value
            else:
                del now.running[place], now.priority[place]
            if siblings[place]:
                core = core_of[place]
                beside = any(other in now.running for other in siblings[place])
                (now.active.add if begins or beside else now.active.discard)(core)
                (now.doubled.add if begins and beside else now.doubled.discard)(core)
        elif kind == "ready":
            if begins:
                now.ready[place] = value[0]
            else:
                now.ready.pop(place, None)
        else:
            group = {"idle": now.idle, "still": now.still, "park": now.parked}[kind]
            (group.add if begins else group.discard)(place)
    if simulation.now > before:
        yield before, simulation.now, now


# Time, whether something begins, what, its CPU, core or thread, and what is told of it.
_Edge = tuple[int, int, str, int, tuple[int, ...]]


def _edges(simulation: Simulation) -> list[_Edge]:
    edges: list[tuple[int, int, str, int, tuple[int, ...]]] = []
    stays = [*simulation.truth.slices, *interrupts(simulation)]
    stays.sort(key=lambda stay: (stay.start, stay.end))
    cores = {cpu.cpu: cpu.core for cpu in simulation.machine.cpus}

    def add(kind: str, place: int, begin: int, end: int, *value: int) -> None:
        edges.append((begin, 1, kind, place, value))
        edges.append((end, 0, kind, place, value))

    for kind, at in (("idle", {cpu: cpu for cpu in cores}), ("still", cores)):
        last = dict.fromkeys(at.values(), 0)
        for stay in stays:
            place = at[stay.cpu]
            if stay.end > stay.start:
                if stay.start - last[place] >= MIN_IDLE_NS:
                    add(kind, place, last[place], stay.start)
                last[place] = max(last[place], stay.end)
        for place, since in last.items():
            if simulation.now - since >= MIN_IDLE_NS:
                add(kind, place, since, simulation.now)
    for stay in stays:
        if stay.end > stay.start:
            add("run", stay.cpu, stay.start, stay.end, stay.tid, stay.priority)
    for span in simulation.truth.ready:
        if span.end > span.start:
            known = span.end < simulation.now
            edges.append((span.start, 1, "ready", span.tid, (span.priority if known else UNKNOWN,)))
            edges.append((span.end, 0, "ready", span.tid, ()))
    for record in simulation.records:
        if isinstance(record, Park):
            edges.append((record.ts, int(record.parked), "park", record.cpu, ()))
    edges.sort(key=lambda edge: edge[:2])
    return edges


def interrupts(simulation: Simulation) -> Iterator[Slice]:
    """The interrupts of each CPU where no thread runs, as stays."""
    stays = defaultdict(list)
    for stay in simulation.truth.slices:
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
                yield Slice(INTERRUPT, record.cpu, since, start, "interrupt")
            since = max(since, end)
        if since < until:
            yield Slice(INTERRUPT, record.cpu, since, until, "interrupt")
