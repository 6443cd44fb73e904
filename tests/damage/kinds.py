"""The kinds of damage: each draws a plan for a recording."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from damage.perf_file import enters_idle
from damage.stream import Chunk, Plan, by_cpu

Draw = Callable[[Sequence[Chunk], random.Random, int], Plan]
"""(chunks, chance, ticks per second) -> plan."""


def _share(chunks: Sequence[Chunk], chance: random.Random, share: float) -> set[int]:
    numbers = [chunk.number for chunk in chunks if not _is_head(chunk)]
    return set(chance.sample(numbers, max(1, int(share * len(numbers)))))


def _is_head(chunk: Chunk) -> bool:
    """It contains machine and names; files that lack it are a separate kind."""
    return any(record.kind == "rundown" for record in chunk.records)


def _burst(chunks: Sequence[Chunk], chance: random.Random, share: float) -> set[int]:
    """All chunks of some CPUs in stretches of time."""
    first = min(chunk.first for chunk in chunks)
    last = max(chunk.last for chunk in chunks)
    cpus = sorted({chunk.cpu for chunk in chunks})
    found: set[int] = set()
    for _ in range(chance.randint(1, 4)):
        length = (last - first) * share / 2
        start = chance.uniform(first, last - length)
        hit = set(chance.sample(cpus, chance.randint(1, len(cpus))))
        found |= {
            chunk.number
            for chunk in chunks
            if chunk.cpu in hit
            and not _is_head(chunk)
            and chunk.first < start + length
            and chunk.last > start
        }
    return found or _share(chunks, chance, 0.02)


def _one_lost(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_share(chunks, chance, 0.0))


def _random_lost(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_share(chunks, chance, chance.uniform(0.02, 0.4)))


def _events_lost(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_share(chunks, chance, chance.uniform(0.02, 0.2)), only_events=True)


def _burst_lost(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_burst(chunks, chance, chance.uniform(0.05, 0.5)))


def _most_lost(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_share(chunks, chance, chance.uniform(0.5, 0.8)))


def _unsignaled(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    lost = chance.choice([_share, _burst])(chunks, chance, chance.uniform(0.01, 0.3))
    return Plan(lost, signaled=False, renumbered=True, undetectable=True)


def _sequence_gap(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_share(chunks, chance, chance.uniform(0.01, 0.2)), signaled=False)


def _cpu_missing(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    cpus = sorted({chunk.cpu for chunk in chunks})
    gone = set(chance.sample(cpus, chance.randint(1, max(1, len(cpus) // 4))))
    lost = {c.number for c in chunks if c.cpu in gone and not _is_head(c)}
    return Plan(lost, signaled=False)


def _part(
    chunks: Sequence[Chunk], chance: random.Random, keep: Callable[[int, int, int], bool]
) -> set[int]:
    """Chunks outside the kept part of some CPUs' streams: (place, chunks, cut) -> kept."""
    streams = by_cpu(chunks)
    hit = chance.sample(sorted(streams), chance.randint(1, len(streams)))
    found: set[int] = set()
    for cpu in hit:
        stream = [chunk for chunk in streams[cpu] if not _is_head(chunk)]
        cut = chance.randint(1, max(1, len(stream) * 7 // 10))
        found |= {
            chunk.number for place, chunk in enumerate(stream) if not keep(place, len(stream), cut)
        }
    return found


def _late_start(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_part(chunks, chance, lambda place, count, cut: place >= cut), False)


def _early_end(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(_part(chunks, chance, lambda place, count, cut: place < count - cut), False)


def _offline(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    """A CPU goes offline while it is idle, and perf writes no more records for it."""
    plan = Plan(signaled=False, threads_only=True)
    streams = by_cpu(chunks)
    for cpu in chance.sample(sorted(streams), len(streams)):
        stream = streams[cpu]
        switches = [[r for r in c.records if r.kind == "switch"][-1:] for c in stream]
        ends = [
            place
            for place, last in enumerate(switches[:-1])
            if place and last and enters_idle(last[0])
        ]
        if ends:
            place = chance.choice(ends)
            plan.offline[cpu] = stream[place].number
            plan.lost |= {chunk.number for chunk in stream[place + 1 :]}
            break
    return plan


def _ring(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    """Each CPU keeps its newest chunks; the oldest are overwritten."""
    keep = chance.randint(3, 12)
    lost: set[int] = set()
    for stream in by_cpu(chunks).values():
        lost |= {chunk.number for chunk in stream[: max(0, len(stream) - keep)]}
    kept_head = {chunk.number for chunk in chunks if _is_head(chunk)}
    return Plan(lost - kept_head, signaled=False, overwritten=True)


def _without(*kinds: str, undetectable: bool = False) -> Draw:
    def draw(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
        return Plan(without=frozenset(kinds), unknown_everywhere=True, undetectable=undetectable)

    return draw


def _some_wakeups(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(thinned={"wakeup": chance.uniform(0.01, 0.9)}, unknown_everywhere=True)


def _repeated(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(repeated=_share(chunks, chance, chance.uniform(0.02, 0.3)))


def _reordered(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(reordered=True)


def _reused_ids(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    """The file has the ids already; every second run also loses a few chunks."""
    return Plan(_share(chunks, chance, 0.03) if chance.random() < 0.5 else set())


def _stamp(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    first, last = min(c.first for c in chunks), max(c.last for c in chunks)
    inner = [chunk for chunk in chunks if not _is_head(chunk) and chunk.first > first]
    chunk = chance.choice(inner)
    places = [place for place, record in enumerate(chunk.records) if record.ticks]
    place = chance.choice(places)
    own = chunk.records[place].ticks or 0
    wrong = chance.choice([
        own + 29_027_037 * hz, own + (1 << 52), last + (last - first) // 3, own // 3,
        first - (last - first) // 3, chance.randint(first, last), own ^ (1 << 40),
    ])  # fmt: skip
    return Plan(stamps=[(chunk.number, place, max(1, wrong))])


def _clock_back(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    first, last = min(c.first for c in chunks), max(c.last for c in chunks)
    inner = [chunk for chunk in chunks if not _is_head(chunk) and chunk.first > first]
    back = int((last - first) * chance.uniform(0.02, 0.3))
    chosen = chance.choice(inner)
    # If no two records on both sides of the step are out of order by 1 ms, one wrong time, or
    # none, would look the same.
    stream = [chunk for chunk in by_cpu(chunks)[chosen.cpu] if not _is_head(chunk)]
    before = sorted(t for c in stream if c.sequence < chosen.sequence for t in c.times())[-2:]
    after = sorted(t - back for c in stream if c.sequence >= chosen.sequence for t in c.times())[:2]
    shown = len(before) == len(after) == 2 and before[0] > after[1] + hz // 1000
    return Plan(steps=[(chosen.number, -back)], undetectable=not shown)


def _cut(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan(cut=chance.uniform(0.4, 0.95), unknown_everywhere=True)


def _none(chunks: Sequence[Chunk], chance: random.Random, hz: int) -> Plan:
    return Plan()


KINDS: dict[str, Draw] = {
    "none": _none,
    "one_lost": _one_lost,
    "random_lost": _random_lost,
    "events_lost": _events_lost,
    "burst_lost": _burst_lost,
    "most_lost": _most_lost,
    "sequence_gap": _sequence_gap,
    "unsignaled": _unsignaled,
    "cpu_missing": _cpu_missing,
    "late_start": _late_start,
    "early_end": _early_end,
    "offline": _offline,
    "ring": _ring,
    "no_wakeups": _without("wakeup"),
    "some_wakeups": _some_wakeups,
    "no_migrations": _without("migration"),
    "no_priorities": _without("priority"),
    "no_idle": _without("idle"),
    # Busy then excludes interrupts: the numbers differ but are not wrong.
    "no_interrupts": _without("interrupt", undetectable=True),
    "no_switches": _without("switch", "switch_record"),
    "no_thread_events": _without("thread"),
    "no_rundown": _without("rundown"),
    "repeated": _repeated,
    "reordered": _reordered,
    "reused_ids": _reused_ids,
    "one_stamp": _stamp,
    "clock_back": _clock_back,
    "cut": _cut,
}

TEXTS: dict[str, str] = {
    "none": "the file is copied",
    "one_lost": "one buffer (a run of 8 to 24 records of a CPU) is lost and signaled",
    "random_lost": "2 to 40 % of the buffers are lost and signaled",
    "events_lost": "2 to 20 % of the buffers are lost; an .etl signals lost events, not buffers",
    "burst_lost": "all buffers of some CPUs in up to four stretches of time are lost and signaled",
    "most_lost": "50 to 80 % of the buffers are lost and signaled",
    "sequence_gap": "buffers are lost, and only sequence numbers are missing",
    "unsignaled": "buffers are lost without a signal",
    "cpu_missing": "all records of up to a quarter of the CPUs are missing",
    "late_start": "the streams of some CPUs start late",
    "early_end": "the streams of some CPUs end early",
    "offline": "the hotplug thread takes a CPU offline, whose stream ends there (perf.data)",
    "ring": "each CPU keeps its last 3 to 12 buffers, as with `perf record --overwrite`",
    "no_wakeups": "the file has no wakeups",
    "some_wakeups": "1 to 90 % of the wakeups are not in the file, without a sign",
    "no_migrations": "the file has no migrations",
    "no_priorities": "the file has no changes of priority",
    "no_idle": "the file has no idle states",
    "no_interrupts": "the file has no interrupts, so busy excludes them",
    "no_switches": "the file has no context switches",
    "no_thread_events": "the file has no starts and ends of threads and processes",
    "no_rundown": "the threads that exist at the start are not listed, snapshots are missing",
    "repeated": "some buffers are in the file twice",
    "reordered": "buffers or records are in another order in the file",
    "reused_ids": "a thread has the id of one that ended before; half the files lose 3 % as well",
    "one_stamp": "the timestamp of one record is wrong",
    "clock_back": "the clock of one CPU steps back permanently",
    "cut": "the file ends early",
}
"""Description of each kind, for the table."""
