"""A simulated run as a sequence of moments in which nothing changes. Times in ns."""

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
# Represents an interrupt where a thread is expected.
INTERRUPT = -1
# Priority of a thread that is still ready when the run ends.
UNKNOWN = -1


@dataclass
class Moment:
    """Who is where."""

    running: dict[int, int] = field(default_factory=dict)
    """By CPU: the thread, or INTERRUPT where none runs."""
    priority: dict[int, int] = field(default_factory=dict)
    """By CPU: the priority of the slice at its start."""
    active: set[int] = field(default_factory=set)
    """Cores with SMT siblings of which at least one is busy."""
    doubled: set[int] = field(default_factory=set)
    """Cores with both siblings busy."""
    idle: set[int] = field(default_factory=set)
    """CPUs in an idle period of at least 100 us."""
    still: set[int] = field(default_factory=set)
    """Cores whose CPUs are all idle, for at least 100 us without a break."""
    ready: dict[int, int] = field(default_factory=dict)
    """Threads, and the priority with which they will run; UNKNOWN if the run ends first."""
    parked: set[int] = field(default_factory=set)


def moments(simulation: Simulation) -> Iterator[tuple[int, int, Moment]]:
    """(start, end, state) of every stretch in which nothing changes; the state is one object."""
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
                sibling_busy = any(other in now.running for other in siblings[place])
                (now.active.add if begins or sibling_busy else now.active.discard)(core)
                (now.doubled.add if begins and sibling_busy else now.doubled.discard)(core)
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


# Time, whether something starts, what, its CPU, core, or thread, and its value.
_Edge = tuple[int, int, str, int, tuple[int, ...]]


def _edges(simulation: Simulation) -> list[_Edge]:
    edges: list[tuple[int, int, str, int, tuple[int, ...]]] = []
    slices = [*simulation.truth.slices, *interrupts(simulation)]
    slices.sort(key=lambda slice_: (slice_.start, slice_.end))
    cores = {cpu.cpu: cpu.core for cpu in simulation.machine.cpus}

    def add(kind: str, place: int, begin: int, end: int, *value: int) -> None:
        edges.append((begin, 1, kind, place, value))
        edges.append((end, 0, kind, place, value))

    for kind, at in (("idle", {cpu: cpu for cpu in cores}), ("still", cores)):
        last = dict.fromkeys(at.values(), 0)
        for slice_ in slices:
            place = at[slice_.cpu]
            if slice_.end > slice_.start:
                if slice_.start - last[place] >= MIN_IDLE_NS:
                    add(kind, place, last[place], slice_.start)
                last[place] = max(last[place], slice_.end)
        for place, since in last.items():
            if simulation.now - since >= MIN_IDLE_NS:
                add(kind, place, since, simulation.now)
    for slice_ in slices:
        if slice_.end > slice_.start:
            add("run", slice_.cpu, slice_.start, slice_.end, slice_.tid, slice_.priority)
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
    """The interrupts of each CPU where no thread runs, as slices."""
    slices = defaultdict(list)
    for slice_ in simulation.truth.slices:
        if slice_.end > slice_.start:
            slices[slice_.cpu].append((slice_.start, slice_.end))
    for busy in slices.values():
        busy.sort()
    for record in simulation.records:
        if not isinstance(record, Interrupt):
            continue
        since, until = record.ts, min(record.ts + record.dur, simulation.now)
        busy = slices[record.cpu]
        at = max(0, bisect_right(busy, (since, FOREVER)) - 1)
        for start, end in busy[at:]:
            if start >= until:
                break
            if start > since:
                yield Slice(INTERRUPT, record.cpu, since, start, "interrupt")
            since = max(since, end)
        if since < until:
            yield Slice(INTERRUPT, record.cpu, since, until, "interrupt")
