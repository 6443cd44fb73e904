"""Shared by both formats: records in chunks, one stream per CPU, and a plan of damage."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True)
class Record:
    """One record: its bytes, and its clock in ticks of the file; None if it has none."""

    data: bytes
    ticks: int | None
    kind: str
    """switch, wakeup, migration, priority, idle, interrupt, thread, rundown or other."""


@dataclass
class Chunk:
    """Records of one CPU that are lost together: a buffer of an .etl, a run of a perf.data."""

    number: int
    cpu: int
    records: list[Record]
    sequence: int = 0
    flags: int = 0

    def times(self) -> list[int]:
        """Clocks of its records."""
        return [record.ticks for record in self.records if record.ticks]

    @property
    def first(self) -> int:
        """Clock of the first record."""
        return min(self.times(), default=0)

    @property
    def last(self) -> int:
        """Clock of the last record."""
        return max(self.times(), default=0)


@dataclass
class Plan:
    """What is done to a file. Chunks are identified by number."""

    lost: set[int] = field(default_factory=set)
    signaled: bool = True
    """The file has the signs of loss: flags and totals of an .etl, PERF_RECORD_LOST."""
    only_events: bool = False
    """An .etl reports single lost events: the sequence numbers of its buffers have no gaps."""
    renumbered: bool = False
    """The sequence numbers of an .etl have no gaps."""
    overwritten: bool = False
    """The buffers of a perf.data overwrote their oldest records: its events have the flag for that,
    and the newest records come first."""
    without: frozenset[str] = frozenset()
    """Kinds of records that are dropped everywhere."""
    thinned: dict[str, float] = field(default_factory=dict)
    """Kinds of records, and the share of each that is dropped without a sign."""
    repeated: set[int] = field(default_factory=set)
    reordered: bool = False
    stamps: list[tuple[int, int, int]] = field(default_factory=list)
    """(chunk, position of the record in it, new clock)."""
    steps: list[tuple[int, int]] = field(default_factory=list)
    """(first chunk, ticks): from this chunk on, the clock of its CPU is later by this much."""
    offline: dict[int, int] = field(default_factory=dict)
    """By CPU, the chunk after which its hotplug thread takes it offline; the later ones are in
    `lost`. Only for a perf.data."""
    cut: float | None = None
    """Share of the bytes that is kept."""
    undetectable: bool = False
    """The bytes do not show the damage, so no reader can detect it."""
    threads_only: bool = False
    """The state of the CPUs is unknown from here on, even whether they were online."""
    unknown_everywhere: bool = False
    """The missing part concerns the whole recording, so no width is judged."""

    def leaves_out(self, record: Record, chance: random.Random) -> bool:
        """Whether a record is dropped because of its kind; draws only for kinds in `thinned`."""
        share = self.thinned.get(record.kind)
        return record.kind in self.without or (share is not None and chance.random() < share)


Span = tuple[int, int, int]
"""CPU, first and last clock between which records are missing or wrong."""


class File(Protocol):
    """A recording in memory."""

    chunks: list[Chunk]
    hz: int

    def damaged(self, plan: Plan, seed: int) -> bytes:
        """The bytes of a copy with the plan applied."""


def by_cpu(chunks: Iterable[Chunk]) -> dict[int, list[Chunk]]:
    """The streams, each in time order."""
    streams: dict[int, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        streams[chunk.cpu].append(chunk)
    for stream in streams.values():
        stream.sort(key=lambda chunk: chunk.sequence)
    return dict(sorted(streams.items()))


def spans(chunks: Sequence[Chunk], plan: Plan, extent: tuple[int, int]) -> list[Span]:
    """The damaged stretches of each CPU's stream; `extent` is the range of the recording."""
    found: list[Span] = []
    for cpu, stream in by_cpu(chunks).items():
        before = extent[0]
        lost_from: int | None = None
        for chunk in stream:
            if chunk.number in plan.lost:
                lost_from = before if lost_from is None else lost_from
                continue
            if lost_from is not None:
                found.append((cpu, lost_from, max(lost_from, chunk.first)))
                lost_from = None
            before = max(before, chunk.last)
        if lost_from is not None:
            found.append((cpu, lost_from, extent[1]))
    numbered = {chunk.number: chunk for chunk in chunks}
    for number, place, _ in plan.stamps:
        chunk = numbered[number]
        stream = by_cpu(chunks)[chunk.cpu]
        times = [ticks for other in stream for ticks in other.times()]
        own = chunk.records[place].ticks or 0
        before = max((ticks for ticks in times if ticks < own), default=extent[0])
        after = min((ticks for ticks in times if ticks > own), default=extent[1])
        found.append((chunk.cpu, before, after))
    for number, ticks in plan.steps:
        chunk = numbered[number]
        found.append((chunk.cpu, min(chunk.first, chunk.first + ticks), extent[1]))
    return found


def union_ns(found: Iterable[Span], window: tuple[int, int], hz: int) -> tuple[int, int]:
    """(time in which any CPU is damaged, the same summed over CPUs) in a window of ticks."""
    clipped = [
        (cpu, max(start, window[0]), min(end, window[1]))
        for cpu, start, end in found
        if start < window[1] and end > window[0]
    ]

    def length(parts: list[tuple[int, int]]) -> int:
        total, reached = 0, window[0]
        for start, end in sorted(parts):
            total += max(0, end - max(start, reached))
            reached = max(reached, end)
        return total

    any_cpu = length([(start, end) for _, start, end in clipped])
    cpus = {cpu for cpu, _, _ in clipped}
    summed = sum(length([(s, e) for other, s, e in clipped if other == cpu]) for cpu in cpus)
    return any_cpu * 1_000_000_000 // hz, summed * 1_000_000_000 // hz
