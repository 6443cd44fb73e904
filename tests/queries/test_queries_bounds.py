"""Every time that a query returns states its bounds, and the bounds are true under loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import gap_by_hand
import gap_schedule
import pytest

from schedlens.ask import bounds, catalog

pytestmark = pytest.mark.slow

QUERIES = catalog.load_all()
NAMES = [query.full_name for query in QUERIES]
# Columns that contain times by name; in terms of other tools, by comment.
_TIME = re.compile(r"^(ns|ts|dur)$|_(ns|ts)$|^ns_per_")
_DURATION = re.compile(r", (ns|ms|msec|microseconds)\b")


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_every_time_column_states_its_bounds(query: catalog.Query) -> None:
    names = [name for name, _ in query.columns]
    for column, comment in query.columns:
        bound = bounds.mark(query, column)
        if _TIME.search(column) or (_DURATION.search(comment) and query.schema != "main"):
            assert bound is not None, f"{column}: {comment}"
        if bound is None:
            continue
        for end in (bound.low, bound.high):
            assert end is None or end in names, f"{column} names {end}"
        if bound.kind == "range":
            for end in (bound.low, bound.high):
                kind = bounds.mark(query, str(end))
                assert end == column or (kind and kind.kind == "bound"), f"{column} names {end}"


def test_marks_are_read_from_comments() -> None:
    assert bounds.parse("Length, ns. (exact)") == bounds.Bound("exact")
    assert bounds.parse("Begin, ns. (time)") == bounds.Bound("time")
    assert bounds.parse("Time, ns. (at least; unknown_ns more at most)") == bounds.Bound(
        "slack", high="unknown_ns"
    )
    assert bounds.parse("Time, ns. (from low_ns to high_ns)") == bounds.Bound(
        "range", "low_ns", "high_ns"
    )
    assert bounds.parse("Time (in all), ns.") is None
    assert bounds.parse("Time (lower bound)") is None
    assert bounds.without_mark("Time, ns. (at least)") == "Time, ns."
    assert bounds.without_mark("Time (lower bound)") == "Time (lower bound)"


def test_limits_follow_the_mark() -> None:
    row = {"x_ns": 5, "unknown_ns": 2, "low_ns": 3, "high_ns": None, "y_ns": None}
    slack = bounds.Bound("slack", high="unknown_ns")
    assert slack.limits("x_ns", row) == (5, 7)
    assert slack.limits("y_ns", row) == (None, None)
    assert bounds.Bound("exact").limits("x_ns", row) == (5, 5)
    assert bounds.Bound("at_least").limits("x_ns", row) == (5, None)
    assert bounds.Bound("at_most").limits("x_ns", row) == (None, 5)
    assert bounds.Bound("range", "low_ns", "high_ns").limits("x_ns", row) == (3, None)
    assert bounds.Bound("none").limits("x_ns", row) == (None, None)


# Identity columns by query: rows of the truth and of the recording with gaps are compared.
THREAD = ("trace_id", "utid")
KEYS = {
    "thread_summary": THREAD,
    "process_summary": ("trace_id", "upid"),
    "thread_cpu": (*THREAD, "cpu"),
    "thread_core_use": (*THREAD, "cpu"),
    "core_choice": THREAD,
    "core_type_residency": (*THREAD, "core_type"),
    "e_core_cause": THREAD,
    "core_type_priority": ("trace_id", "priority", "core_type"),
    "core_type_move": (*THREAD, "left_ns"),
    "thread_by_priority": ("trace_id", "process", "priority"),
    "priority_share": ("trace_id", "priority"),
    "thread_priority": (*THREAD, "priority"),
    "waker_pair": (*THREAD, "waker_utid"),
    "short_run": THREAD,
    "parallel_section": ("trace_id", "upid", "pool", "ts"),
    "cpu_time": ("trace_id", "cpu"),
    "concurrency": ("trace_id", "busy"),
    "concurrency_process": ("trace_id", "process", "running"),
    "sibling_overlap": ("trace_id", "core"),
    "sibling_overlap_total": ("trace_id",),
    "sibling_overlap_process": ("trace_id", "process"),
    "sibling_overlap_thread": THREAD,
    "sibling_pair": (*THREAD, "other_utid"),
    "avoidable_sharing": THREAD,
    "avoidable_sharing_total": ("trace_id",),
    "sharing_by_affinity": ("trace_id",),
    "whole_idle_core": ("trace_id", "core", "ts"),
    "ready_obstacle": THREAD,
    "ready_obstacle_total": ("trace_id",),
    "worst_waits": (*THREAD, "ready_ts"),
    "pinned_cpu_visitor": (*THREAD, "cpu"),
    "block_concurrency": ("trace_id", "block"),
    "block_sharing": ("trace_id", "block"),
    "block_process": ("trace_id", "process", "block"),
}
RECORDINGS = 12


@pytest.fixture(scope="module")
def truth() -> Iterator[duckdb.DuckDBPyConnection]:
    with gap_schedule.build(RECORDINGS, with_gaps=False) as con:
        yield con


@pytest.fixture(scope="module")
def gappy() -> Iterator[duckdb.DuckDBPyConnection]:
    with gap_schedule.build(RECORDINGS, with_gaps=True) as con:
        yield con


def _rows(con: duckdb.DuckDBPyConnection, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    cursor = con.execute(f"FROM {name}")
    names = [column[0] for column in cursor.description or []]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    found = {tuple(row[key] for key in KEYS[name]): row for row in rows}
    assert len(found) == len(rows), "two rows have the same identity"
    return found


@pytest.mark.parametrize("name", KEYS)
def test_truth_is_within_bounds_under_loss(
    name: str, truth: duckdb.DuckDBPyConnection, gappy: duckdb.DuckDBPyConnection
) -> None:
    query = catalog.find(name)
    marks = {column: bounds.mark(query, column) for column, _ in query.columns}
    true_rows, shown_rows = _rows(truth, name), _rows(gappy, name)
    outside, changed = [], 0
    for key in true_rows.keys() & shown_rows.keys():
        true, shown = true_rows[key], shown_rows[key]
        for column, bound in marks.items():
            if bound is None or not bound.is_duration or true[column] is None:
                continue
            changed += true[column] != shown[column]
            low, high = bound.limits(column, shown)
            # Shares are ratios of integers: equal except for the last bit.
            near = 1e-9 if isinstance(true[column], float) else 0
            if not (low is None or low <= true[column] + near) or not (
                high is None or true[column] <= high + near
            ):
                outside.append((key, column, low, true[column], high))
    assert outside == []
    assert changed > 0, "the gaps do not change any row of this query"


@pytest.mark.parametrize("name", KEYS)
def test_bounds_are_exact_without_loss(name: str, truth: duckdb.DuckDBPyConnection) -> None:
    query = catalog.find(name)
    marks = {column: bounds.mark(query, column) for column, _ in query.columns}
    for row in _rows(truth, name).values():
        for column, bound in marks.items():
            if bound and bound.kind in ("slack", "range") and row[column] is not None:
                assert bound.limits(column, row) == (row[column], row[column]), column


@pytest.fixture(scope="module")
def drawn() -> Iterator[tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection]]:
    with gap_by_hand.build(gap=True) as shown, gap_by_hand.build(gap=False) as true:
        yield shown, true


# Query and columns, the rows that the records with the gap give, and those without; in us.
DRAWN = [
    (
        "SELECT tid, run_ns, run_high_ns, ready_ns, wait_ns, unknown_ns FROM thread_summary "
        "ORDER BY tid",
        [(1, 200, 300, 0, 200, 100), (2, 200, 300, 0, 0, 300), (3, 200, 300, 50, 150, 100)],
        [(1, 300, 300, 0, 200, 0), (2, 200, 200, 0, 300, 0), (3, 200, 200, 50, 250, 0)],
    ),
    (
        "SELECT upid, run_ns, run_high_ns, wait_ns, unknown_ns FROM process_summary ORDER BY upid",
        [(1000, 200, 300, 0, 300), (1001, 400, 600, 350, 200)],
        [(1000, 200, 200, 300, 0), (1001, 500, 500, 450, 0)],
    ),
    (
        "SELECT tid, cpu, run_ns, unknown_ns FROM thread_cpu ORDER BY tid",
        [(1, 0, 200, 100), (2, 1, 200, 0), (3, 1, 200, 0)],
        [(1, 0, 300, 0), (2, 1, 200, 0), (3, 1, 200, 0)],
    ),
    (
        "SELECT tid, alone_ns, shared_ns, sibling_unknown_ns, unknown_ns FROM thread_core_use "
        "ORDER BY tid",
        [(1, 50, 150, 0, 100), (2, 0, 150, 50, 50), (3, 200, 0, 0, 0)],
        [(1, 100, 200, 0, 0), (2, 0, 200, 0, 0), (3, 200, 0, 0, 0)],
    ),
    (
        "SELECT tid, run_ns, shared_ns, unknown_ns FROM sibling_overlap_thread ORDER BY tid",
        [(1, 200, 150, 100), (2, 200, 150, 200), (3, 200, 0, 200)],
        [(1, 300, 200, 0), (2, 200, 200, 0), (3, 200, 0, 0)],
    ),
    (
        "SELECT core, none_ns, one_ns, both_ns, unknown_ns FROM sibling_overlap ORDER BY core",
        [(0, 0, 250, 150, 100), (2, 500, 0, 0, 0)],
        [(0, 0, 300, 200, 0), (2, 500, 0, 0, 0)],
    ),
    (
        "SELECT process, with_itself_ns, with_others_ns, others_ns, unknown_ns "
        "FROM sibling_overlap_process ORDER BY process",
        [("even", 0, 150, 0, 100), ("odd", 0, 150, 0, 100)],
        [("even", 0, 200, 0, 0), ("odd", 0, 200, 0, 0)],
    ),
    (
        "SELECT both_ns, shared_thread_ns, thread_ns, unknown_ns FROM sibling_overlap_total",
        [(150, 300, 550, 100)],
        [(200, 400, 700, 0)],
    ),
    (
        "SELECT cpu, thread_ns, idle_ns, unknown_ns FROM cpu_time ORDER BY cpu",
        [(0, 200, 200, 100), (1, 400, 100, 0), (2, 0, 500, 0), (3, 0, 500, 0)],
        [(0, 300, 200, 0), (1, 400, 100, 0), (2, 0, 500, 0), (3, 0, 500, 0)],
    ),
    (
        "SELECT busy, ns, low_ns, high_ns, unknown_ns FROM concurrency ORDER BY busy",
        [(0, 50, 0, 50, 50), (1, 300, 250, 350, 50), (2, 150, 150, 250, 0)],
        [(1, 300, 300, 300, 0), (2, 200, 200, 200, 0)],
    ),
    (
        "SELECT process, running, ns, low_ns, high_ns FROM concurrency_process ORDER BY ALL",
        [("even", 1, 200, 100, 300), ("odd", 1, 400, 300, 500)],
        [("even", 1, 200, 200, 200), ("odd", 1, 500, 500, 500)],
    ),
    (
        "SELECT tid, ready_ns, idle_exit_ns, obstacle_unknown_ns, unknown_ns FROM ready_obstacle",
        [(3, 50, 50, 0, 100)],
        [(3, 50, 50, 0, 0)],
    ),
    (
        "SELECT ready_ns, idle_exit_ns, unknown_ns FROM ready_obstacle_total",
        [(50, 50, 500)],
        [(50, 50, 0)],
    ),
    (
        "SELECT tid, shared_ns, any_type_ns FROM avoidable_sharing ORDER BY tid",
        [(1, 150, 150), (2, 150, 150)],
        [(1, 200, 200), (2, 200, 200)],
    ),
    (
        "SELECT shared_ns, any_type_ns, threads_sum_ns FROM avoidable_sharing_total",
        [(300, 150, 300)],
        [(400, 200, 400)],
    ),
    (
        "SELECT tid, core_type, run_ns, unknown_ns FROM core_type_residency ORDER BY tid",
        [(1, "U", 200, 100), (2, "U", 200, 100), (3, "U", 200, 100)],
        [(1, "U", 300, 0), (2, "U", 200, 0), (3, "U", 200, 0)],
    ),
    (
        "SELECT utid, unknown_ns, run_unknown_ns FROM thread_unknown",
        [(1, 100, 100), (2, 300, 100), (3, 100, 100)],
        [],
    ),
    ("SELECT cpu, unknown_ns FROM cpu_unknown", [(0, 100)], []),
]


def _in_us(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    cursor = con.execute(sql)
    names = [column[0] for column in cursor.description or []]
    times = [name == "ns" or name.endswith("_ns") for name in names]
    rows = cursor.fetchall()
    assert all(v % 1000 == 0 for row in rows for v, time in zip(row, times, strict=True) if time)
    return [
        tuple(v // 1000 if time else v for v, time in zip(row, times, strict=True)) for row in rows
    ]


@pytest.mark.parametrize(("sql", "shown", "true"), DRAWN, ids=[sql for sql, _, _ in DRAWN])
def test_gap_of_two_cells_lowers_times_and_widens_bounds(
    drawn: tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection],
    sql: str,
    shown: list[tuple[Any, ...]],
    true: list[tuple[Any, ...]],
) -> None:
    assert [_in_us(con, sql) for con in drawn] == [shown, true]


def test_shares_are_within_their_bounds(
    drawn: tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection],
) -> None:
    busy = "SELECT busy_low_pct, busy_pct, busy_high_pct FROM cpu_time WHERE cpu = 0"
    assert [con.execute(busy).fetchall() for con in drawn] == [[(40, 50, 60)], [(60, 60, 60)]]
    shared = (
        "SELECT shared_of_busy_low_pct, shared_of_busy_pct, shared_of_busy_high_pct "
        "FROM sibling_overlap_total"
    )
    assert [con.execute(shared).fetchall() for con in drawn] == [[(30, 37.5, 50)], [(40, 40, 40)]]
