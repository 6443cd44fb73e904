"""A drawn or random schedule on a coarse time grid, and a second reading of the definitions.

`Schedule` has the state of each CPU and each thread in each cell of the grid; `fill` writes its
rows; the `expect_*` functions compute answers from the cells alone, one moment at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import duckdb
from prepared_database import FOR_FEW_ROWS, prepare

# A cell; thresholds of 100 us and 1 ms are 2 and 20 cells.
CELL = 50_000
THRESHOLDS = (0, 100_000)

T = TypeVar("T")


@dataclass
class Schedule:
    """Cells by CPU: a thread's number, or `i` interrupt, `.` idle, `?` unknown, `x` offline.

    `ready` has the cells in which each thread is ready. Parking cells are None (not recorded) or a
    pair (parked, soft_parked). `allowed` has the sets of a thread by the cell they begin in.

    `lost` has the cells in which each thread is unknown. `woken` has (thread, cell) where a slice
    ends blocked although the thread is ready from that cell on. `flashes` are slices of length zero
    (cpu, cell, thread). With `ties` another record of the same time comes before each parking and
    affinity record.
    """

    cpus: dict[int, list[int | str]]
    cores: dict[int, int | None]
    types: dict[int, str | None] = field(default_factory=dict)
    ready: dict[int, list[bool]] = field(default_factory=dict)
    allowed: dict[int, list[tuple[int, frozenset[int]]]] = field(default_factory=dict)
    parking: dict[int, list[tuple[bool | None, bool | None] | None]] = field(default_factory=dict)
    throttled: frozenset[int] = frozenset()
    lost: dict[int, list[bool]] = field(default_factory=dict)
    woken: frozenset[tuple[int, int]] = frozenset()
    flashes: tuple[tuple[int, int, int], ...] = ()
    ties: bool = False
    source: str = "perf"

    @property
    def cells(self) -> int:
        """Length of the schedule."""
        return len(next(iter(self.cpus.values())))

    def runs(self, cells: Sequence[T]) -> Iterator[tuple[int, int, T]]:
        """Begin, length and value of each run of equal cells."""
        at = 0
        for value, group in itertools.groupby(cells):
            length = len(list(group))
            yield at, length, value
            at += length

    def seen(self, thread: int) -> frozenset[int]:
        """CPUs a thread was seen on."""
        flashed = {cpu for cpu, _, other in self.flashes if other == thread}
        return frozenset({cpu for cpu, row in self.cpus.items() if thread in row} | flashed)

    def may_use(self, thread: int, cell: int) -> tuple[frozenset[int], bool]:
        """Allowed CPUs and whether they are known."""
        held = [cpus for begin, cpus in self.allowed.get(thread, []) if begin <= cell]
        return (held[-1], True) if held else (self.seen(thread), False)

    def parking_of(self, cpu: int, cell: int) -> str:
        """free, soft, hard, or unknown."""
        parked_pair = self.parking.get(cpu, [None] * self.cells)[cell]
        parked, soft = parked_pair or (None, None)
        if parked:
            return "hard"
        if soft:
            return "soft"
        if parked is None and self.source == "etw":
            return "unknown"
        return "free"

    def stretch(self, cpu: int, cell: int) -> int:
        """Length in ns of the idle interval of a CPU around a cell."""
        return _around(lambda at: self.cpus[cpu][at] == ".", cell, self.cells)

    def is_open(self, cpu: int, cell: int) -> bool:
        """The idle interval of a CPU around a cell borders on unknown time."""
        row = self.cpus[cpu]
        first, last = _interval(lambda at: row[at] == ".", cell, self.cells)
        return "?" in row[max(first - 1, 0) : first] + row[last + 1 : last + 2]

    def reason(self, cpu: int, thread: int, end: int) -> str:
        """Why a slice of a thread ends at a cell."""
        if end >= self.cells:
            return "trace_end"
        if not self.ready.get(thread, [False] * self.cells)[end] or (thread, end) in self.woken:
            return "blocked"
        return "throttled_or_moved" if self.cpus[cpu][end] in (".", "i") else "preempted"

    def members(self, core: int) -> list[int]:
        """CPUs of a core."""
        return sorted(cpu for cpu, own in self.cores.items() if own == core)

    def is_idle_core(self, core: int, cell: int) -> bool:
        """Whole core idle."""
        states = [self.cpus[cpu][cell] for cpu in self.members(core)]
        online = [state for state in states if state != "x"]
        return bool(online) and all(state == "." for state in online)

    def idle_length(self, core: int, cell: int) -> int:
        """Length in ns of the idle time of a core around a cell."""
        return _around(lambda at: self.is_idle_core(core, at), cell, self.cells)


def _interval(applies: Callable[[int], bool], cell: int, cells: int) -> tuple[int, int]:
    """First and last cell of the run around one in which a condition is true."""
    first = last = cell
    while first > 0 and applies(first - 1):
        first -= 1
    while last + 1 < cells and applies(last + 1):
        last += 1
    return first, last


def _around(applies: Callable[[int], bool], cell: int, cells: int) -> int:
    first, last = _interval(applies, cell, cells)
    return (last - first + 1) * CELL


def is_busy(state: int | str) -> bool:
    """Thread or interrupt."""
    return isinstance(state, int) or state == "i"


NAMES = {"i": "interrupt", ".": "idle", "?": "unknown", "x": "offline"}


def fill(con: duckdb.DuckDBPyConnection, plan: Schedule, trace_id: int = 1) -> None:
    """Writes the schedule as base and derived rows."""
    end = plan.cells * CELL
    _insert(con, "trace", "trace_id, label, source, first_ns, duration_ns, schema_version, "
            "tool_version", [(trace_id, "drawn", plan.source, 0, end, 1, "test")])  # fmt: skip
    _insert(
        con, "analysis_window", "trace_id, start_ns, end_ns, kind", [(trace_id, 0, end, "trace")]
    )
    _insert(con, "cpu", "trace_id, cpu, core, core_type, online",
            [(trace_id, cpu, core, plan.types.get(cpu, "U"), True)
             for cpu, core in plan.cores.items()])  # fmt: skip
    states, slices, ready = [], [], []
    waited = {
        (thread, at + length): length * CELL
        for thread, cells in plan.ready.items()
        for at, length, value in plan.runs(cells)
        if value
    }
    for cpu, row in plan.cpus.items():
        for at, length, value in plan.runs(row):
            thread = value if isinstance(value, int) else None
            if thread is None:
                states.append((trace_id, cpu, at * CELL, length * CELL, NAMES[str(value)]))
            else:
                reason = plan.reason(cpu, thread, at + length)
                slices.append((trace_id, thread, cpu, at * CELL, length * CELL, False, reason,
                               waited.get((thread, at)), False, False))  # fmt: skip
    for cpu, cell, thread in plan.flashes:
        slices.append((trace_id, thread, cpu, cell * CELL, 0, False, "blocked",
                       waited.get((thread, cell)), False, False))  # fmt: skip
    entered = {(row[1], row[3] // CELL) for row in slices}
    for name, threads_in in (("ready", plan.ready), ("unknown", plan.lost)):
        for thread, cells in threads_in.items():
            ready += [
                (
                    trace_id,
                    thread,
                    at * CELL,
                    length * CELL,
                    name,
                    False,
                    name == "ready",
                )
                for at, length, value in plan.runs(cells)
                if value and not (name == "ready" and (thread, at + length) in entered)
            ]
    _insert(con, "cpu_state_other", "trace_id, cpu, ts, dur, state", states)
    _insert(con, "sched_slice", "trace_id, utid, cpu, ts, dur, is_idle, end_reason, "
            "ready_ns, left_censored, right_censored", slices)  # fmt: skip
    _insert(con, "thread_state_other",
            "trace_id, utid, ts, dur, state, left_censored, right_censored",
            ready)  # fmt: skip
    before = [sorted(plan.cpus)] if plan.ties else []
    _insert(con, "affinity", "trace_id, utid, valid_from_ns, cpus, source",
            [(trace_id, thread, begin * CELL or None, each, "event")
             for thread, sets in plan.allowed.items() for begin, cpus in sets
             for each in (*before, sorted(cpus))])  # fmt: skip
    parking: list[tuple[object, ...]] = []
    for cpu, changes in plan.parking.items():
        for at, _, pair in plan.runs(changes):
            if plan.ties:
                parked = bool(pair and pair[0])
                parking.append((trace_id, at * CELL or None, cpu, not parked, None))
            parking.append((trace_id, at * CELL or None, cpu, *(pair or (None, None))))
    _insert(con, "cpu_parking", "trace_id, ts, cpu, parked, soft_parked", parking)
    if plan.throttled:
        _insert(con, "snapshot_cgroup", "trace_id, ts, edge, cgroup, throttled_ns",
                [(trace_id, 0, "begin", "/held", 5),
                 (trace_id, end, "end", "/held", 6)])  # fmt: skip
        _insert(con, "snapshot_thread", "trace_id, ts, edge, utid, tid, pid, cgroup",
                [(trace_id, 0, "begin", thread, thread, 1, "/held/in")
                 for thread in plan.throttled])  # fmt: skip
    threads = {value for row in plan.cpus.values() for value in row if isinstance(value, int)}
    threads |= {thread for _, _, thread in plan.flashes}
    _insert(con, "thread", "trace_id, utid, tid, upid, name, is_idle",
            [(trace_id, thread, thread, 1000 + thread % 2, f"t{thread}", False)
             for thread in sorted(threads | set(plan.ready))])  # fmt: skip
    _insert(con, "process", "trace_id, upid, pid, name",
            [(trace_id, 1000, 7, "even"), (trace_id, 1001, 8, "odd")])  # fmt: skip


def database() -> duckdb.DuckDBPyConnection:
    """An empty database with all tables and questions."""
    con = duckdb.connect(config=FOR_FEW_ROWS)
    prepare(con)
    return con


def _insert(
    con: duckdb.DuckDBPyConnection, table: str, names: str, rows: Sequence[Sequence[object]]
) -> None:
    if rows:
        marks = ", ".join("?" * len(names.split(",")))
        con.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)


def by_cell(
    con: duckdb.DuckDBPyConnection, table: str, columns: str
) -> dict[tuple[object, ...], list[int]]:
    """The cells in which each value of the columns applies, sorted; rows must be on the grid."""
    found: dict[tuple[object, ...], list[int]] = {}
    for ts, dur, *values in con.execute(f"SELECT ts, dur, {columns} FROM {table}").fetchall():
        assert (ts % CELL, dur % CELL) == (0, 0)
        assert dur >= CELL
        found.setdefault(tuple(values), []).extend(range(ts // CELL, (ts + dur) // CELL))
    return {values: sorted(cells) for values, cells in found.items()}


Cells = dict[tuple[object, ...], list[int]]


def gather(rows: Iterator[tuple[int, tuple[object, ...]]]) -> Cells:
    found: Cells = {}
    for cell, values in rows:
        found.setdefault(values, []).append(cell)
    return found


def expect_core_state(plan: Schedule) -> Cells:
    """core, online, unknown, busy, threads."""

    def rows() -> Iterator[tuple[int, tuple[object, ...]]]:
        for core in sorted({core for core in plan.cores.values() if core is not None}):
            for cell in range(plan.cells):
                states = [plan.cpus[cpu][cell] for cpu in plan.members(core)]
                yield (
                    cell,
                    (
                        core,
                        sum(state != "x" for state in states),
                        states.count("?"),
                        sum(map(is_busy, states)),
                        sum(isinstance(state, int) for state in states),
                    ),
                )

    return gather(rows())


def expect_sibling_slice(plan: Schedule) -> Cells:
    """core, cpu, utid, other_cpu, other_utid."""

    def rows() -> Iterator[tuple[int, tuple[object, ...]]]:
        for core in {core for core in plan.cores.values() if core is not None}:
            for cell in range(plan.cells):
                for a, b in itertools.combinations(plan.members(core), 2):
                    one, two = plan.cpus[a][cell], plan.cpus[b][cell]
                    if is_busy(one) and is_busy(two):
                        threads = [s if isinstance(s, int) else None for s in (one, two)]
                        yield cell, (core, a, threads[0], b, threads[1])

    return gather(rows())


def _usable(plan: Schedule, core: int, allowed: frozenset[int], cell: int) -> str | None:
    if not plan.is_idle_core(core, cell):
        return None
    online = [cpu for cpu in plan.members(core) if plan.cpus[cpu][cell] == "." and cpu in allowed]
    kinds = {plan.parking_of(cpu, cell) for cpu in online}
    return "free" if "free" in kinds else "soft" if "soft" in kinds else None


def _sharers(plan: Schedule, cell: int) -> dict[int, list[tuple[int, int]]]:
    """By shared core: (CPU, thread) of each thread with a busy sibling, then busy CPUs."""
    found: dict[int, list[tuple[int, int]]] = {}
    for core in {core for core in plan.cores.values() if core is not None}:
        states = [(cpu, plan.cpus[cpu][cell]) for cpu in plan.members(core)]
        if sum(is_busy(state) for _, state in states) >= 2:
            threads = [(cpu, state) for cpu, state in states if isinstance(state, int)]
            if threads:
                found[core] = threads
    return found


def _targets(plan: Schedule, cpu: int, thread: int, cell: int, kind: str) -> dict[int, int]:
    """Usable idle cores of a kind: free, same, or soft, with the lengths of their idle time."""
    allowed, _ = plan.may_use(thread, cell)
    own = plan.types.get(cpu, "U")
    found = {}
    for core in sorted({core for core in plan.cores.values() if core is not None}):
        there = plan.types.get(plan.members(core)[0], "U")
        usable = _usable(plan, core, allowed, cell)
        if usable != ("soft" if kind == "soft" else "free"):
            continue
        if kind == "same" and (own is None or own != there):
            continue
        found[core] = plan.idle_length(core, cell)
    return found


def expect_sharing_slice(plan: Schedule) -> Cells:
    """utid, cpu, same_type_idle_ns, any_type_idle_ns, soft_parked_idle_ns, affinity_known."""

    def rows() -> Iterator[tuple[int, tuple[object, ...]]]:
        for cell in range(plan.cells):
            for sharers in _sharers(plan, cell).values():
                for cpu, thread in sharers:
                    lengths = [
                        max(_targets(plan, cpu, thread, cell, kind).values(), default=None)
                        for kind in ("same", "free", "soft")
                    ]
                    yield cell, (thread, cpu, *lengths, plan.may_use(thread, cell)[1])

    return gather(rows())


def expect_avoidable_match(plan: Schedule) -> Cells:
    """min_idle_ns, same_type, any_type; if something matches."""

    def rows() -> Iterator[tuple[int, tuple[object, ...]]]:
        for cell, least in itertools.product(range(plan.cells), THRESHOLDS):
            numbers = []
            for kind in ("same", "free"):
                wishes: list[tuple[int, frozenset[int]]] = []
                limits: list[int] = []
                for core, sharers in sorted(_sharers(plan, cell).items()):
                    busy = sum(is_busy(plan.cpus[cpu][cell]) for cpu in plan.members(core))
                    for cpu, thread in sharers:
                        targets = _targets(plan, cpu, thread, cell, kind)
                        long = frozenset(c for c, ns in targets.items() if ns >= least)
                        wishes.append((len(limits), long))
                    limits.append(busy - 1)
                numbers.append(largest(tuple(wishes), tuple(limits)))
            if any(numbers):
                yield cell, (least, *numbers)

    return gather(rows())


@cache
def largest(wishes: tuple[tuple[int, frozenset[int]], ...], limits: tuple[int, ...]) -> int:
    """Largest matching by exhaustive search: (group, places) of each, limits of the groups."""
    if not wishes:
        return 0
    (group, places), rest = wishes[0], wishes[1:]
    best = largest(rest, limits)
    if limits[group]:
        left = tuple(n - (at == group) for at, n in enumerate(limits))
        for place in places:
            others = tuple((g, p - {place}) for g, p in rest)
            best = max(best, 1 + largest(others, left))
    return best


def expect_concurrency(plan: Schedule) -> Cells:
    """busy, unknown, ready, p, e, other, smt, online."""

    def rows() -> Iterator[tuple[int, tuple[object, ...]]]:
        for cell in range(plan.cells):
            states = {cpu: row[cell] for cpu, row in plan.cpus.items()}
            busy = [cpu for cpu, state in states.items() if is_busy(state)]
            homes = {(cpu if plan.cores[cpu] is None else None, plan.cores[cpu]) for cpu in busy}
            bands = {"P": 0, "U": 0, "E": 0, "LP-E": 0, "other": 0}
            for alone, core in homes:
                first = alone if alone is not None else plan.members(core or 0)[0]
                kind = plan.types.get(first, "U")
                bands[kind if kind in bands else "other"] += 1
            yield (
                cell,
                (
                    len(busy),
                    list(states.values()).count("?"),
                    sum(cells[cell] for cells in plan.ready.values()),
                    bands["P"] + bands["U"],
                    bands["E"] + bands["LP-E"],
                    bands["other"],
                    len(busy) - len(homes),
                    sum(state != "x" for state in states.values()),
                ),
            )

    return gather(rows())
