"""Threads on P and E cores: where each one ran and how long it was away."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

CPUS = [Cpu(0, 0, core_type="P", efficiency_class=1), Cpu(1, 1, core_type="E"),
        Cpu(2, 2, core_type="LP-E")]  # fmt: skip

# ns        0    100  200  300  400  500  600  700  800  900  1000
# cpu 0 P   A A A                       . A A A            . A        back at 500 and at 900
# cpu 1 E             . A A A (ready 50)          . A  700-750 (waited 50, ready 50)
# cpu 2 LP-E                  A 350-400 after 350             B 0..100, never on P
SLICES = [
    Slice("game/A", 0, 0, 150, end="preempted"),
    Slice("game/A", 1, 200, 150, ready=50, wait=0, end="preempted"),
    Slice("game/A", 2, 350, 50, ready=0, wait=0),
    Slice("game/A", 0, 500, 100, ready=20, wait=80),
    Slice("game/A", 1, 700, 50, ready=50, wait=50),
    Slice("game/A", 0, 900, 50, ready=30, wait=120),
    Slice("game/A", 1, 960, 40, ready=5, wait=5, end="trace_end"),
    Slice("other/B", 2, 0, 100),
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        DrawnTrace(database, SLICES, CPUS, 1000)
        yield database


def test_running_time_by_core_type(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, core_type, run_ns, switches_in FROM core_type_residency"
    ).fetchall()
    assert rows == [
        ("A", "P", 300, 3), ("A", "E", 240, 3), ("A", "LP-E", 50, 1), ("B", "LP-E", 100, 1),
    ]  # fmt: skip


def test_running_time_by_core_type_in_a_window(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core_type, run_ns, of_thread_pct "
        "FROM core_type_residency(p_from_ns := 100, p_to_ns := 300, p_process := 'game')"
    ).fetchall()
    assert rows == [("P", 50, 100 * 50 / 150), ("E", 100, 100 * 100 / 150)]


def test_running_time_by_priority(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT priority, core_type, threads, run_ns FROM core_type_priority"
    ).fetchall()
    assert rows == [(120, "P", 1, 300), (120, "E", 1, 240), (120, "LP-E", 2, 150)]


def test_class_change_while_running_splits_the_slice(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute(
        "INSERT INTO cpu (trace_id, cpu, core, core_type, efficiency_class, online, "
        "valid_from_ns) VALUES (1, 0, 0, 'E', 0, TRUE, 100)"
    )
    rows = con.execute(
        "SELECT core_type, run_ns, switches_in FROM core_type_residency(p_to_ns := 150) "
        "WHERE thread = 'A'"
    ).fetchall()
    assert rows == [("P", 100, 1), ("E", 50, 0)]


def test_lists_each_migration_away_and_back(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT from_cpu, to_cpu, left_ns, back_ns, away_ns, run_ns, ready_ns, censored "
        "FROM core_type_move"
    ).fetchall()
    assert rows == [
        (0, 1, 200, 500, 300, 200, 20, False),
        (0, 1, 700, 900, 200, 50, 30, False),
        (0, 1, 960, None, 40, 40, 0, True),
    ]


def test_uniform_machine_has_no_core_type_moves(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE cpu SET core_type = 'U'")
    assert con.execute("FROM core_type_move").fetchall() == []
