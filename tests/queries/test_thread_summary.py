"""Threads on a timeline: exact times, switches, migrations, ready times."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

# Cores {0,1} {2,3} share a cache; core {4} has another cache, core {6} another package.
CPUS = [
    Cpu(0, 0, 0), Cpu(1, 0, 1), Cpu(2, 2, 0), Cpu(3, 2, 1),
    Cpu(4, 4, 0, llc=4), Cpu(6, 6, 0, llc=6, package=1),
]  # fmt: skip

# ns     0    100  200  300  400  500  600  700  800  900  1000
# cpu 0  A A A A                                        (A: preempted at 200)
# cpu 1            . A A  (ready 50, sibling)            (A: blocked at 350)
# cpu 2                       . . A  (waited 100, ready 50, cache)   500-600, quantum end
# cpu 4                                . A  (ready 50, package)      650-700, blocked
# cpu 6                                          A A (waited 150, ready 50, remote) 900-1000
# cpu 3  B from 100 to 200, exits
SLICES = [
    Slice("game/A", 0, 0, 200, end="preempted"),
    Slice("game/A", 1, 250, 100, ready=50, wait=0),
    Slice("game/A", 2, 500, 100, ready=50, wait=100, end="quantum_end", priority=115),
    Slice("game/A", 4, 650, 50, ready=50, wait=0),
    Slice("game/A", 6, 900, 100, ready=50, wait=150, end="trace_end"),
    Slice("other/B", 3, 100, 100, ready=10, end="exit"),
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        DrawnTrace(database, SLICES, CPUS, 1000)
        yield database


def _row(con: duckdb.DuckDBPyConnection, call: str, thread: str) -> dict[str, object]:
    cursor = con.execute(f"SELECT * FROM {call} WHERE thread = ?", [thread])
    names = [column[0] for column in cursor.description or []]
    rows = cursor.fetchall()
    assert len(rows) == 1
    return dict(zip(names, rows[0], strict=True))


def test_times_switches_and_migrations_of_whole_recording(con: duckdb.DuckDBPyConnection) -> None:
    row = _row(con, "thread_summary", "A")
    expected = {
        "process": "game", "run_ns": 550, "run_high_ns": 550, "run_pct": 55.0,
        "run_high_pct": 55.0, "ready_ns": 200, "wait_ns": 250,
        "new_ns": 0, "unknown_ns": 0, "switches_in": 5, "voluntary_out": 2, "involuntary_out": 2,
        "yields": 0, "preemptions": 1, "quantum_ends": 1, "migrations": 4, "migrations_core": 1,
        "migrations_llc": 1, "migrations_package": 1, "migrations_remote": 1,
        "migrations_unknown": 0, "ready_count": 5, "ready_p50_ns": 50, "ready_p95_ns": 50,
        "ready_p99_ns": 50, "ready_max_ns": 50, "waits": 2, "wait_max_ns": 150,
        "priority_min": 115, "priority_max": 120, "cpus": 5, "first_cpu": 0, "last_cpu": 6,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_window_clips_times_and_keeps_only_its_switches(con: duckdb.DuckDBPyConnection) -> None:
    row = _row(con, "thread_summary(p_from_ns := 300, p_to_ns := 660)", "A")
    expected = {
        "run_ns": 160, "ready_ns": 100, "wait_ns": 100, "switches_in": 2, "voluntary_out": 1,
        "involuntary_out": 1, "migrations": 2, "migrations_llc": 1, "migrations_package": 1,
        "waits": 1, "wait_max_ns": 100,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_thread_without_time_in_the_window_is_omitted(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread FROM thread_summary(p_from_ns := 300, p_to_ns := 660)"
    ).fetchall()
    assert rows == [("A",)]


def test_process_filter_matches_the_name(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT thread, run_ns FROM thread_summary(p_process := 'other')").fetchall()
    assert rows == [("B", 100)]
    assert con.execute("FROM thread_summary(p_process := 'O''Brien')").fetchall() == []


def test_unknown_topology_gives_migrations_of_unknown_distance(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("UPDATE cpu SET core = NULL, llc = NULL, package = NULL")
    row = _row(con, "thread_summary", "A")
    assert (row["migrations"], row["migrations_unknown"], row["migrations_core"]) == (4, 4, 0)


def test_unknown_ready_time_is_null(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE sched_slice SET ready_ns = NULL, wait_ns = NULL")
    row = _row(con, "thread_summary", "A")
    assert (row["ready_count"], row["ready_max_ns"], row["ready_p50_ns"]) == (0, None, None)


def test_processes_sum_their_threads(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT process, threads, run_ns, ready_ns, wait_ns, switches_in, migrations, ready_max_ns "
        "FROM process_summary"
    ).fetchall()
    assert rows == [("game", 1, 550, 200, 250, 5, 4, 50), ("other", 1, 100, 10, 90, 1, 0, 10)]


def test_priorities_have_their_own_running_and_ready_time(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT process, priority, threads, run_ns, ready_ns, ready_pct, switches_in, ready_max_ns "
        "FROM thread_by_priority"
    ).fetchall()
    assert rows == [
        ("game", 120, 1, 450, 150, 25.0, 4, 50),
        ("game", 115, 1, 100, 50, 100 * 50 / 150, 1, 50),
        ("other", 120, 1, 100, 10, 100 * 10 / 110, 1, 10),
    ]


def test_time_by_cpu_sums_to_thread_times(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT cpu, run_ns, switches_in, longest_ns FROM thread_cpu WHERE thread = 'A'"
    ).fetchall()
    assert rows == [(0, 200, 1, 200), (1, 100, 1, 100), (2, 100, 1, 100), (4, 50, 1, 50),
                    (6, 100, 1, 100)]  # fmt: skip


def test_parts_of_a_cpu_tile_the_window(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT cpu, thread_ns, idle_ns, busy_pct FROM cpu_time(p_from_ns := 100, p_to_ns := 300)"
    ).fetchall()
    assert rows == [(0, 100, 100, 50.0), (1, 50, 150, 25.0), (2, 0, 200, 0.0), (3, 100, 100, 50.0),
                    (4, 0, 200, 0.0), (6, 0, 200, 0.0)]  # fmt: skip


def test_priority_without_known_ready_time_has_null(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE sched_slice SET ready_ns = NULL WHERE priority = 115")
    rows = con.execute(
        "SELECT run_ns, ready_ns, ready_pct, ready_max_ns FROM thread_by_priority "
        "WHERE priority = 115"
    ).fetchall()
    assert rows == [(100, None, None, None)]
