"""Compares the answers about a damaged recording with the truth."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from damage import marks
from damage.bench import Answers, Row
from damage.identity import Name, Names, is_certain, is_certain_process
from damage.marks import Mark
from schedlens.ask.catalog import Query
from schedlens.ask.findings import SEVERITIES, Finding

# Columns that identify the subject of a row.
IDENTITY = (
    "utid", "upid", "other_utid", "waker_utid", "cpu", "core", "core_type", "efficiency_class",
    "priority", "kind", "name", "state", "obstacle", "busy", "running", "runnable", "pool",
    "parked", "cgroup", "part", "reason", "process", "key", "from_idle", "active_cores", "block",
)  # fmt: skip
# With a thread or process these only repeat its name, which is not compared.
_REPEATED = ("process", "name", "priority", "core_type", "efficiency_class", "kind")
# Queries with several rows for a thread, which differ in this.
_ALSO = {
    "background_running": "priority",
    "core_type_residency": "core_type",
    "smt_tax": "core_type",
    "thread_cpi": "core_type",
    "thread_frequency_type": "core_type",
    "thread_priority": "priority",
}
# Queries with a row per event: (start, length). The rows with the longest overlap are paired.
EVENTS = {
    "worst_waits": ("ready_ts", "ready_ns"),
    "quantum_end_chain": ("ts", "dur"),
    "core_type_move": ("left_ns", "away_ns"),
    "thread_qos": ("from_ns", "dur_ns"),
    "move_interval": ("ts", "after_ns"),
    "parallel_section": ("ts", "dur"),
    "counter_interval": ("ts", "dur"),
    "frequency_interval": ("from_ns", "dur"),
    "frame_time": ("start_ns", "dur_ns"),
    "frame_concurrency": ("start_ns", "dur_ns"),
    "frame_ledger": ("start_ns", "frame_ns"),
    "concurrency_timeline": ("start_ns", "dur_ns"),
    "core_choice_timeline": ("start_ns", "dur_ns"),
    "frequency_timeline": ("start_ns", "dur_ns"),
    "priority_timeline": ("start_ns", "dur_ns"),
    "thread_timeline": ("start_ns", "dur_ns"),
    "cpu_timeline": ("start_ns", "dur_ns"),
    "ready_obstacle_slice": ("ts", "dur"),
}
# Threads whose weight is unclear have no row: its absence is not 0 ns.
_LEAVES_OUT = {"fair_share"}
# Each row repeats the sums of its thread, which do not depend on the time of the row.
_REPEATS_SUMS = {"thread_timeline"}
# Their length is clipped to the window, their start is not.
_CLIPPED = {"worst_waits"}
# In these columns the value is not an identity.
_VALUES = {
    "worst_waits": {"cpu"},
    "cpu_timeline": {"state", "utid"},
    "thread_timeline": {"state"},
    "quantum_end_chain": set[str](),
    "step_disturbance": {"other_utid"},
}
# The percent columns are not rounded but divided.
_TOLERANCE = 1e-6


@dataclass
class Wrong:
    """A row whose claim is false."""

    about: str
    claimed: tuple[float, float]
    true: tuple[float, float]


@dataclass
class Column:
    """Results of the rows of one column."""

    mark: str = ""
    rows: int = 0
    no_claim: int = 0
    no_truth: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    """Width of the bounds of each row with an upper bound, ns per thread that it sums."""


Columns = dict[tuple[str, str], Column]


def judge(
    queries: Iterable[Query],
    damaged: Answers,
    whole: Answers,
    *,
    threads_only: bool = False,
    has_wakeups: bool = True,
) -> Columns:
    """By query and column.

    `threads_only`: without rows about CPUs. `has_wakeups`: without any, `waiting` and `new`
    include ready time, as the data model says.
    """
    found: Columns = {}
    # The kernel misses records of its own: even the whole recording does not always show
    # where a thread ran.
    unclear = {
        whole.names.of("utid", row["utid"])
        for row in whole.states["thread_state"]
        if row["state"] == "unknown" and row["ts"] > whole.first_ns
    }
    for query in queries:
        claims = {column: mark for column, mark in marks.of(query).items() if mark.claims}
        if threads_only and "utid" not in identity(query):
            continue
        for column, mark in claims.items():
            found[query.full_name, column] = Column(mark.kind)
        for row, true in _pairs(query, damaged, whole):
            is_clear = damaged.names.of("utid", row.get("utid")) not in unclear
            for column, mark in claims.items():
                count = found[query.full_name, column]
                _compare(count, mark, column, row, true, damaged.names, is_clear)
    for table in ("thread_state", "cpu_state"):
        found[table, "state"] = _states(table, damaged, whole, has_wakeups)
    return found


_ABSENT: Row = {}


def _compare(
    count: Column,
    mark: Mark,
    column: str,
    row: Row,
    true: Row | None,
    names: Names,
    is_clear: bool,
) -> None:
    """`true`: the row of the whole recording; empty if it has none; None if unknown.

    `is_clear`: the whole recording always knows the state of the row's thread.
    """
    claimed = mark.interval(row, column)
    if claimed is None:
        count.no_claim += 1
        return
    if true is None:
        count.no_truth += 1
        return
    if true is _ABSENT:
        if mark.kind == "exact" or not is_clear:
            count.no_truth += 1
            return
        truth: tuple[float, float] | None = (0, 0)
    else:
        truth = _truth(mark, true, column)
        if truth is not None and mark.kind == "at_least" and not is_clear:
            truth = (truth[0], float("inf"))
    if truth is None:
        count.no_truth += 1
        return
    count.rows += 1
    in_ns = column.endswith("_ns") or column in ("ns", "dur")
    if in_ns and claimed[1] != float("inf") and claimed[0] != float("-inf"):
        # A row that sums threads sums what each of them may have done in the lost time.
        threads = row.get("threads") or row.get("unknown_threads") or 1
        count.widths.append((claimed[1] - claimed[0]) / threads)
    slack = _TOLERANCE * max(1.0, abs(truth[0])) if isinstance(truth[0], float) else 0
    if claimed[0] > truth[1] + slack or claimed[1] < truth[0] - slack:
        about = ", ".join(
            f"{key}={names.of(key, row[key])}" for key in (*IDENTITY, "thread") if row.get(key)
            is not None
        )  # fmt: skip
        count.wrong.append(Wrong(about, claimed, truth))


def _truth(mark: Mark, true: Row, column: str) -> tuple[float, float] | None:
    """The whole recording is exact except where it reports unknown time itself."""
    if mark.kind in ("range", "unknown"):
        return mark.interval(true, column)
    value = true[column]
    return None if value is None else (value, value)


def identity(query: Query) -> list[str]:
    """The columns that identify the subject of a row."""
    columns = [column for column, _ in query.columns]
    left_out = _VALUES.get(query.name, set())
    keys = [column for column in IDENTITY if column in columns and column not in left_out]
    if "cpu" in keys or "core" in keys:
        keys = [key for key in keys if key not in ("core_type", "efficiency_class")]
    if "utid" in keys or "upid" in keys:
        wanted = _ALSO.get(query.name)
        keys = [key for key in keys if key not in _REPEATED or key == wanted]
    return keys


def _pairs(query: Query, damaged: Answers, whole: Answers) -> Iterator[tuple[Row, Row | None]]:
    """Each row with the row of the whole recording about the same subject."""
    keys = identity(query)
    ours, theirs = damaged.rows[query.full_name], whole.rows[query.full_name]
    if query.name in EVENTS:
        yield from _event_pairs(query, keys, damaged, whole)
        return
    nullable = _nullable(query, keys, whole)
    known: dict[Name, list[Row]] = defaultdict(list)
    for row in theirs:
        known[_name(row, keys, whole.names)].append(row)
    said: dict[Name, int] = defaultdict(int)
    for row in ours:
        said[_name(row, keys, damaged.names)] += 1
    for row in ours:
        name = _name(row, keys, damaged.names)
        candidates = known.get(name, [])
        is_sure = _is_sure(row, keys, nullable, damaged, whole)
        if said[name] > 1 or len(candidates) > 1 or not is_sure:
            yield row, None
        else:
            absent = None if query.name in _LEAVES_OUT else _ABSENT
            yield row, candidates[0] if candidates else absent


def _name(row: Row, keys: Iterable[str], names: Names) -> Name:
    found = tuple(names.of(key, row[key]) for key in keys)
    if "other_utid" in keys:
        # A pair is ordered by utid, which differs between two recordings.
        first, second = row.get("utid"), row["other_utid"]
        pair = sorted((names.of("utid", first), names.of("utid", second)), key=repr)
        return (*pair, *(n for key, n in zip(keys, found, strict=True) if "utid" not in key))
    return found


def _nullable(query: Query, keys: Iterable[str], whole: Answers) -> set[str]:
    """Columns in which NULL is part of the identity."""
    types = [key for key in keys if key in ("core_type", "efficiency_class")]
    rows = whole.rows[query.full_name]
    return {"reason", *(key for key in types if any(row[key] is None for row in rows))}


def _is_sure(
    row: Row, keys: Iterable[str], nullable: set[str], damaged: Answers, whole: Answers
) -> bool:
    for key in keys:
        if row[key] is None and key not in nullable:
            return False
        if not is_certain(damaged.names.of(key, row[key]), damaged.names, whole.names):
            return False
        if key == "process" and not is_certain_process(row[key], damaged.names, whole.names):
            return False
    return True


def shift_ns(damaged: Answers, whole: Answers) -> int:
    """The offset from times of the damaged recording to times of the whole one."""
    ticks = damaged.start_clock - whole.start_clock
    return ticks * 1_000_000_000 // whole.clock_hz


def _event_pairs(
    query: Query, keys: list[str], damaged: Answers, whole: Answers
) -> Iterator[tuple[Row, Row | None]]:
    start, length = EVENTS[query.name]
    shift, nullable = shift_ns(damaged, whole), _nullable(query, keys, whole)

    def begin_of(row: Row, answers: Answers) -> int:
        begin: int = row[start]
        return max(begin, answers.window[0]) if query.name in _CLIPPED else begin

    known: dict[Name, list[tuple[int, Row]]] = defaultdict(list)
    for row in whole.rows[query.full_name]:
        if row[start] is not None and row[length] is not None:
            known[_name(row, keys, whole.names)].append((begin_of(row, whole), row))
    longest: dict[Name, int] = {}
    for name, rows in known.items():
        rows.sort(key=itemgetter(0))
        longest[name] = max(row[length] for _, row in rows)
    for row in damaged.rows[query.full_name]:
        is_sure = _is_sure(row, keys, nullable, damaged, whole)
        if row[start] is None or row[length] is None or not is_sure:
            yield row, None
            continue
        begin = begin_of(row, damaged) + shift
        end = begin + row[length]
        name = _name(row, keys, damaged.names)
        if name not in known:
            yield row, _ABSENT
            continue
        # None that begins earlier reaches this row.
        low = bisect_left(known[name], begin - longest[name], key=itemgetter(0))
        high = bisect_right(known[name], max(begin, end), key=itemgetter(0))
        found = known[name][0][1] if query.name in _REPEATS_SUMS else _ABSENT
        best = (False, 0)
        for other_begin, other in known[name][low:high]:
            overlap = min(end, other_begin + other[length]) - max(begin, other_begin)
            fit = (other_begin == begin, overlap)
            if fit > best:
                best, found = fit, other
        yield row, found


def _states(table: str, damaged: Answers, whole: Answers, has_wakeups: bool) -> Column:
    """Each known state of a thread or CPU in the window matches the whole recording."""
    key = "utid" if table == "thread_state" else "cpu"
    count = Column("exact")
    shift = shift_ns(damaged, whole)
    known: dict[Any, list[Row]] = defaultdict(list)
    for row in whole.states[table]:
        known[whole.names.of(key, row[key])].append(row)
    at: dict[Any, int] = defaultdict(int)
    low, high = (edge + shift for edge in damaged.window)
    for row in damaged.states[table]:
        name = damaged.names.of(key, row[key])
        begin, end = max(low, row["ts"] + shift), min(high, row["ts"] + row["dur"] + shift)
        if end <= begin:
            continue
        if row["state"] in ("unknown", "offline"):
            # Offline makes no statement about threads; only its bounds in the queries are judged.
            count.no_claim += 1
            continue
        if name not in known or not is_certain(name, damaged.names, whole.names):
            count.no_truth += 1
            continue
        rows = known[name]
        place = at[name]
        while place < len(rows) and rows[place]["ts"] + rows[place]["dur"] <= begin:
            place += 1
        at[name] = place
        count.rows += 1
        wrong: dict[str, int] = defaultdict(int)
        while place < len(rows) and rows[place]["ts"] < end:
            true = rows[place]
            ns = min(end, true["ts"] + true["dur"]) - max(begin, true["ts"])
            if not has_wakeups and row["state"] in ("waiting", "new") and true["state"] == "ready":
                ns = 0
            if ns > 0 and not _same_state(table, row, true, damaged.names, whole.names):
                wrong[true["state"]] += ns
            place += 1
        if wrong:
            truly = ", ".join(f"{state} {ns} ns" for state, ns in wrong.items())
            about = f"{key}={name} {row['state']} from {begin} to {end}, truly {truly}"
            count.wrong.append(Wrong(about, (end - begin, end - begin),
                                     (end - begin - sum(wrong.values()),) * 2))  # fmt: skip
    return count


def replace_states(answers: Answers, table: str, rows: list[Row]) -> Answers:
    """The same answers with other rows of a table of states."""
    return replace(answers, states=answers.states | {table: rows})


def _same_state(table: str, row: Row, true: Row, ours: Names, theirs: Names) -> bool:
    if true["state"] == "unknown":
        return True
    if row["state"] != true["state"]:
        return False
    if table == "thread_state":
        return bool(row["state"] != "running" or row["cpu"] == true["cpu"])
    mine, other = ours.of("utid", row["utid"]), theirs.of("utid", true["utid"])
    return bool(mine == other) or not is_certain(mine, ours, theirs)


@dataclass
class FalseFinding:
    """A finding that the whole recording does not support."""

    analyzer: str
    severity: str
    title: str


# They judge the recording, not the machine.
_OF_THE_RECORDING = ("trace_quality", "recorder_cost")
# Their cost is a sum over threads; the named thread only has the largest part.
_OF_ALL_THREADS = (
    "avoidable_sharing", "priority_order", "ready_obstacle", "oversubscription", "frame_time",
)  # fmt: skip
# Their cost is this column of the named thread.
_OF_A_THREAD = {
    "thread_summary": ("thread_summary", "ready_ns"),
    "core_choice": ("core_choice", "e_beside_idle_p_ns"),
    "core_type_residency": ("core_choice", "e_ns"),
}


def false_findings(damaged: Answers, whole: Answers) -> list[FalseFinding]:
    """Findings of severity warning or above that the whole recording does not support.

    It supports one if it has a finding of that kind about the same thread and CPU, or if its own
    cost is at least as large.
    """
    found = []
    for finding in damaged.findings:
        if not _is_grave(finding) or finding.analyzer in _OF_THE_RECORDING:
            continue
        alike = [
            other
            for other in whole.findings
            if (other.analyzer, other.kind) == (finding.analyzer, finding.kind)
        ]
        if any(_is_grave(other) and _same_subject(finding, other, damaged, whole)
               for other in alike):  # fmt: skip
            continue
        if not _is_cost_true(finding, alike, damaged, whole):
            found.append(FalseFinding(finding.analyzer, finding.severity, finding.title))
    return found


def _is_grave(finding: Finding) -> bool:
    return SEVERITIES.index(finding.severity) <= SEVERITIES.index("warning")


def _same_subject(finding: Finding, true: Finding, damaged: Answers, whole: Answers) -> bool:
    if finding.utid is not None:
        ours = damaged.names.of("utid", finding.utid)
        return bool(ours == whole.names.of("utid", true.utid)) or not is_certain(
            ours, damaged.names, whole.names
        )
    return finding.cpu is None or finding.cpu == true.cpu


def _is_cost_true(finding: Finding, alike: list[Finding], damaged: Answers, whole: Answers) -> bool:
    if finding.cost_ns is None:
        return False
    if finding.analyzer in _OF_ALL_THREADS:
        return any((other.cost_ns or 0) >= finding.cost_ns for other in alike)
    if finding.analyzer == "quantum_end_chain":
        # The whole recording may have more of the chain, with another first thread.
        return any(
            row["cpu"] == finding.cpu and (row["serialized_ns"] or 0) >= finding.cost_ns
            for row in whole.rows.get("quantum_end_chain", [])
        )
    if finding.analyzer == "pinned_cpu_visitor":
        return any(
            row["cpu"] == finding.cpu and (row["owner_ready_ns"] or 0) >= finding.cost_ns
            for row in whole.rows.get("pinned_cpu_visitor", [])
        )
    if finding.analyzer not in _OF_A_THREAD or finding.utid is None:
        return False
    query, column = _OF_A_THREAD[finding.analyzer]
    ours = damaged.names.of("utid", finding.utid)
    return any(
        (row[column] or 0) >= finding.cost_ns
        for row in whole.rows.get(query, [])
        if whole.names.of("utid", row["utid"]) == ours
    )
