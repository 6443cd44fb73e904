"""The recorded machine as the simulated scheduler sees it: CPUs, siblings, and their speeds."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedlens.simulate.machine import Cpu, Machine

if TYPE_CHECKING:
    import duckdb

# Used where neither counters nor the system's own capacities say how fast a core is.
ASSUMED_E = (0.45, 0.55, 0.7)
ASSUMED_SHARED = (0.5, 0.6, 0.75)
# A thread counts for a ratio of speeds if it ran this long in both situations, and so often: a
# switch that is not recorded makes a busy sibling look idle once.
LEAST_NS, LEAST_INTERVALS = 1_000_000, 3
# An interval counts as alone or shared if its sibling was idle or busy for more than this share.
# Where records were lost, it is neither.
CLEARLY = 0.98
# Ends of the ranges of assumed speeds: of core types, and of busy siblings.
ENDS = {
    "middle": ("middle", "middle"), "low": ("low", "low"), "high": ("high", "high"),
    "slow_types": ("low", "high"), "slow_siblings": ("high", "low"),
}  # fmt: skip


@dataclass(frozen=True)
class Speed:
    """A speed relative to the fastest core alone, with its range and where it comes from."""

    low: float
    middle: float
    high: float
    source: str

    @property
    def is_assumed(self) -> bool:
        """Whether nothing in the recording measures it."""
        return self.source == "assumed"


class Busy:
    """How long a CPU ran threads up to a time, from its slices in order."""

    def __init__(self, slices: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []
        total = 0
        for start, end in slices:
            self._starts.append(start)
            self._ends.append(end)
            self._before.append(total)
            total += end - start
        self.total = total
        """All of it, ns."""

    def slices(self) -> list[tuple[int, int]]:
        """Start and end of each slice."""
        return list(zip(self._starts, self._ends, strict=True))

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """The times between two others at which no thread ran."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        found: list[tuple[int, int]] = []
        at = start
        for since, until in zip(self._starts[first:], self._ends[first:], strict=True):
            if since >= end:
                break
            if since > at:
                found.append((at, since))
            at = max(at, until)
        if at < end:
            found.append((at, end))
        return found

    def until(self, ts: int) -> int:
        """Busy time before a time, ns."""
        place = bisect_right(self._starts, ts) - 1
        if place < 0:
            return 0
        return self._before[place] + min(ts, self._ends[place]) - self._starts[place]


@dataclass
class RecordedMachine:
    """CPUs in the order of their numbers, and how fast each runs alone and shared."""

    numbers: list[int]
    """Logical CPU number by index; the scheduler counts indices."""
    machine: Machine
    types: dict[str, Speed]
    shared: Speed | None
    """None without siblings."""
    busy: list[Busy] = field(repr=False, default_factory=list)
    siblings: list[list[int]] = field(default_factory=list)

    def index(self, number: int) -> int:
        """The index of a logical CPU."""
        return self.numbers.index(number)

    def work_ns(self, index: int, start: int, end: int) -> float:
        """Work done on a CPU between two times, in ns of the fastest core alone."""
        spent = float(end - start)
        speed = self.machine.cpus[index].speed
        busy = [
            self.busy[other].until(end) - self.busy[other].until(start)
            for other in self.siblings[index]
        ]
        shared = max(busy, default=0)
        return speed * (spent - (1 - self.machine.shared_speed) * shared)


def read(con: duckdb.DuckDBPyConnection, trace_id: int, *, end: str = "middle") -> RecordedMachine:
    """The machine of a recording; `end`: one of the ENDS of the speeds that are assumed."""
    rows = con.execute(
        "SELECT cpu, coalesce(core, cpu), coalesce(smt_index, 0), coalesce(core_type, 'U'), "
        "coalesce(efficiency_class, 0), coalesce(l2, cpu), coalesce(max_khz, 1000000), capacity "
        "FROM cpu WHERE trace_id = ? AND coalesce(online, true) "
        "QUALIFY row_number() OVER (PARTITION BY cpu ORDER BY valid_from_ns NULLS FIRST) = 1 "
        "ORDER BY cpu",
        [trace_id],
    ).fetchall()
    numbers = [row[0] for row in rows]
    place = {number: index for index, number in enumerate(numbers)}
    cores: dict[int, list[int]] = defaultdict(list)
    for number, core, *_ in rows:
        cores[core].append(place[number])
    mates = [[other for other in cores[row[1]] if other != place[row[0]]] for row in rows]
    busy = _slices(con, trace_id, place, is_idle=False)
    idle = _slices(con, trace_id, place, is_idle=True) if any(mates) else busy
    types, shared = _measured(con, trace_id, rows, place, (busy, idle), mates)
    of_types, of_shared = ENDS[end]
    speeds = {kind: getattr(speed, of_types) for kind, speed in types.items()}
    cpus = tuple(
        Cpu(
            cpu=place[number],
            core=min(cores[core]),
            smt_index=smt_index,
            core_type=kind,
            efficiency_class=efficiency,
            speed=speeds[kind],
            l2=l2,
            khz=khz,
        )
        for number, core, smt_index, kind, efficiency, l2, khz, _ in rows
    )
    factor = getattr(shared, of_shared) if shared else 1.0
    machine = Machine(f"recorded {len(cpus)}T", cpus, factor)
    return RecordedMachine(numbers, machine, types, shared, busy, mates)


def _slices(
    con: duckdb.DuckDBPyConnection, trace_id: int, place: dict[int, int], *, is_idle: bool
) -> list[Busy]:
    """The slices of each CPU that threads, or the idle one, have.

    An idle slice right after another one is left out: the switch between them was not recorded.
    """
    slices: list[list[tuple[int, int]]] = [[] for _ in place]
    for cpu, ts, dur in con.execute(
        "SELECT cpu, ts, dur FROM sched_slice WHERE trace_id = $trace_id AND dur > 0 "
        "QUALIFY is_idle = $is_idle AND NOT (is_idle AND coalesce(lag(is_idle) "
        "OVER (PARTITION BY cpu ORDER BY ts), false)) ORDER BY cpu, ts",
        {"trace_id": trace_id, "is_idle": is_idle},
    ).fetchall():
        if cpu in place:
            slices[place[cpu]].append((ts, ts + dur))
    return [Busy(found) for found in slices]


def _measured(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    rows: list[Any],
    place: dict[int, int],
    slices: tuple[list[Busy], list[Busy]],
    mates: list[list[int]],
) -> tuple[dict[str, Speed], Speed | None]:
    """Speeds by the instructions that the same thread retired in both situations, else by
    capacity, else assumed. `slices`: of threads, and of the idle ones."""
    busy, idle = slices
    kinds = {row[0]: row[3] for row in rows}
    retired: dict[tuple[int, str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    for cpu, utid, ts, dur, delta in con.execute(
        "SELECT cpu, utid, ts, dur, delta FROM counter_delta "
        "WHERE trace_id = ? AND counter = 'instructions' AND dur > 20000",
        [trace_id],
    ).fetchall():
        if cpu not in place:
            continue
        others = mates[place[cpu]]
        is_shared = any(
            busy[other].until(ts + dur) - busy[other].until(ts) > CLEARLY * dur for other in others
        )
        is_alone = all(
            idle[other].until(ts + dur) - idle[other].until(ts) > CLEARLY * dur for other in others
        )
        if not is_shared and not is_alone:
            continue
        total = retired[utid, kinds[cpu], is_shared]
        total[0] += delta
        total[1] += dur
        total[2] += 1
    rate = {
        key: done / ns
        for key, (done, ns, count) in retired.items()
        if ns >= LEAST_NS and count >= LEAST_INTERVALS and done > 0
    }
    best = max(rows, key=lambda row: (row[4], row[7] or 0))[3] if rows else "U"
    types = {}
    for kind in sorted(set(kinds.values())):
        capacities = {row[7] for row in rows if row[3] == kind}
        ratios = [
            here / rate[utid, best, False]
            for (utid, of, is_shared), here in rate.items()
            if of == kind and not is_shared and (utid, best, False) in rate
        ]
        if kind == best:
            types[kind] = Speed(1.0, 1.0, 1.0, "fastest")
        elif ratios:
            types[kind] = _ratio(ratios)
        elif len(capacities) == 1 and None not in capacities:
            part = capacities.pop() / 1024
            types[kind] = Speed(part, part, part, "capacity")
        else:
            types[kind] = Speed(*ASSUMED_E, "assumed")
    if not any(mates):
        return types, None
    ratios = [
        here / rate[utid, kind, False]
        for (utid, kind, is_shared), here in rate.items()
        if is_shared and (utid, kind, False) in rate
    ]
    return types, _ratio(ratios) if ratios else Speed(*ASSUMED_SHARED, "assumed")


def _ratio(ratios: list[float]) -> Speed:
    middle = statistics.median(ratios)
    return Speed(middle, middle, middle, "instructions")
