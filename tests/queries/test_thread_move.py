"""Threads that continue on another CPU: how often, and how long after the move before."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from experiment_session import section
from judged import plain

MS = 1_000_000

# ms      0   4   8   12  16  20  24  28  32
# cpu 0   A A A . . . . A A A . . . B           moves of A at 12, 28 and 34 ms
# cpu 1   . . . A A A . . . . A . . .           B is pinned, C never moves
# cpu 2   C C
SLICES = [
    Slice("game/A", 0, 0, 12 * MS, end="preempted"),
    Slice("game/A", 1, 12 * MS, 5 * MS, wait=0, end="preempted"),
    Slice("game/A", 1, 20 * MS, 4 * MS, ready=3 * MS, wait=0),
    Slice("game/A", 0, 28 * MS, 6 * MS, wait=4 * MS, end="preempted"),
    Slice("game/A", 1, 34 * MS, 2 * MS, wait=0),
    Slice("game/B", 0, 36 * MS, 1 * MS),
    Slice("game/C", 2, 0, 2 * MS),
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, [Cpu(0, 0), Cpu(1, 1), Cpu(2, 2)], 40 * MS)
        trace.add("affinity", utid=trace.utid("game/A"), cpus=[0, 1, 2], source="snapshot")
        trace.add("affinity", utid=trace.utid("game/B"), cpus=[0], source="pin")
        yield database


def test_each_move_has_the_time_since_the_one_before(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT * EXCLUDE (trace_id, utid) FROM move_interval").fetchall()
    assert rows == [
        (12 * MS, 0, 1, None, None),
        (28 * MS, 1, 0, 16 * MS, 9 * MS),
        (34 * MS, 0, 1, 6 * MS, 6 * MS),
    ]


def test_lost_records_leave_the_next_time_unknown(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"UPDATE sched_slice SET prev_cpu = NULL WHERE NOT is_idle AND ts = {20 * MS}")
    rows = con.execute("SELECT ts, after_ns FROM move_interval").fetchall()
    assert rows == [(12 * MS, None), (28 * MS, None), (34 * MS, 6 * MS)]


def test_moves_at_one_time_are_in_the_order_in_which_the_thread_ran(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """A slice at the time of the next one has no length."""
    con.execute(f"UPDATE sched_slice SET dur = 0 WHERE NOT is_idle AND ts = {28 * MS}")
    con.execute(f"UPDATE sched_slice SET ts = {28 * MS} WHERE NOT is_idle AND ts = {34 * MS}")
    rows = con.execute("SELECT * EXCLUDE (trace_id, utid) FROM move_interval").fetchall()
    assert rows == [
        (12 * MS, 0, 1, None, None),
        (28 * MS, 1, 0, 16 * MS, 9 * MS),
        (28 * MS, 0, 1, 0, 0),
    ]


def test_threads_that_are_not_pinned_have_their_moves(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, allowed_cpus, run_ns, switches_in, moves, moves_per_s, timed, "
        "after_p10_ns, after_p50_ns, after_p90_ns, after_max_ns, run_p50_ns FROM thread_move"
    ).fetchall()
    assert rows == [
        ("A", 3, 29 * MS, 5, 3, 75, 2, 6 * MS, 6 * MS, 16 * MS, 16 * MS, 6 * MS),
        ("C", None, 2 * MS, 1, 0, 0, 0, None, None, None, None, None),
    ]


def test_distribution_counts_moves_by_powers_of_two(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("FROM thread_move_histogram").fetchall()
    assert rows == [(1, 8_192_000, 1, 50, 1), (1, 16_384_000, 1, 50, 1)]


def test_section_says_after_how_long(con: duckdb.DuckDBPyConnection) -> None:
    (figure,) = section(con, "thread_move")["figures"]
    assert plain(figure["caption"]) == (
        "2 moves of 1 thread by the time since the move before; half of them within 6 ms."
    )
    assert figure["plot"]["data"][0]["y"] == [1, 1]
