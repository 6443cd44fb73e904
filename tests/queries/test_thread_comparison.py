"""The same program on a hybrid and on a symmetric machine: its threads side by side, in ms."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

MS = 1_000_000

# Recording 1, two cores of one type:     cpu 0  A A A A B B . .     B is ready for the first 4 ms,
#                                         cpu 1  C C C C C C C C     and again for 1 ms at the end.
SYMMETRIC = [
    Slice("game/A", 0, 0, 4 * MS, priority=12),
    Slice("game/B", 0, 4 * MS, 2 * MS, ready=4 * MS, wait=0, priority=9, end="preempted"),
    Slice("game/B", 0, 7 * MS, 1 * MS, ready=1 * MS, wait=0, priority=9),
    Slice("game/C", 1, 0, 8 * MS, priority=9, end="trace_end"),
]
# Recording 2, a P core and an E core:    cpu 0 (P)  A A A A . . . .
#                                         cpu 1 (E)  B B B B . . . D    B at priority 9, then 10.
# Only here is a wakeup recorded, that of D, so that only here waiting is known.
HYBRID = [
    Slice("game/A", 0, 0, 4 * MS, priority=12),
    Slice("game/B", 1, 0, 3 * MS, priority=9, end="preempted"),
    Slice("game/B", 1, 3 * MS, 1 * MS, wait=0, priority=10),
    Slice("game/D", 1, 7 * MS, 1 * MS, ready=1 * MS, priority=9),
]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        cores = [Cpu(0, 0), Cpu(1, 1)]
        DrawnTrace(database, SYMMETRIC, cores, 8 * MS)
        cores = [Cpu(0, 0, core_type="P", efficiency_class=1), Cpu(1, 1, core_type="E")]
        trace = DrawnTrace(database, HYBRID, cores, 8 * MS, trace_id=2)
        for cpu, name, cycles, instructions in ((0, "A", 8000, 4000), (1, "B", 9000, 3000)):
            for counter, delta in (("cycles", cycles), ("instructions", instructions)):
                trace.add(
                    "counter_delta", cpu=cpu, utid=trace.utid(f"game/{name}"), ts=0, dur=4 * MS,
                    counter=counter, core_type="PE"[cpu], delta=delta,
                )  # fmt: skip
        database.execute("UPDATE trace SET label = 'game-symmetric', cpu_model = 'two' "
                         "WHERE trace_id = 1")  # fmt: skip
        database.execute("UPDATE trace SET label = 'game' WHERE trace_id = 2")
        yield database


def test_symmetric_recording_is_compared_with_the_hybrid_one(
    con: duckdb.DuckDBPyConnection,
) -> None:
    pairs = con.execute("SELECT first, second, basis FROM recording_pair").fetchall()
    assert pairs == [("game-symmetric", "game", "machine")]
    con.execute("UPDATE trace SET label = 'game-hybrid' WHERE trace_id = 2")
    try:
        pairs = con.execute("SELECT first, second, basis FROM recording_pair").fetchall()
        assert pairs == [("game-symmetric", "game-hybrid", "machine")]
    finally:
        con.execute("UPDATE trace SET label = 'game' WHERE trace_id = 2")


def test_threads_have_their_times_in_both(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT first, second, thread, first_run_ms, second_run_ms, first_ready_ms, "
        "second_ready_ms, first_ready_max_ms, second_ready_max_ms, first_switches, "
        "second_switches FROM thread_comparison"
    ).fetchall()
    names = ("game-symmetric", "game")
    assert rows == [
        (*names, "A", 4, 4, 0, 0, 0, 0, 1, 1),
        (*names, "C", 8, None, 0, None, 0, None, 1, None),
        (*names, "B", 3, 4, 5, 0, 4, 0, 2, 2),
        (*names, "D", None, 1, None, 1, None, 1, None, 1),
    ]


def test_waits_shares_and_priorities_are_compared(con: duckdb.DuckDBPyConnection) -> None:
    row = con.execute(
        "SELECT first_ready_pct, second_ready_pct, first_wait_ms, second_wait_ms, first_waits, "
        "first_e_pct, second_e_pct, first_priorities, second_priorities FROM thread_comparison "
        "WHERE thread = 'B'"
    ).fetchall()
    assert row == [(62.5, 0, None, 4, 0, 0, 100, "9 (100 %)", "9 (75 %), 10 (25 %)")]


def test_injected_counts_give_cycles_per_instruction_by_core_type(
    con: duckdb.DuckDBPyConnection,
) -> None:
    rows = con.execute(
        "SELECT thread, first_cpi_p, second_cpi_p, second_cpi_e FROM thread_comparison "
        "WHERE thread IN ('A', 'B')"
    ).fetchall()
    assert rows == [("A", None, 2, None), ("B", None, None, 3)]


def test_any_two_recordings_can_be_named(con: duckdb.DuckDBPyConnection) -> None:
    asked = (
        "SELECT first, thread, first_run_ms, second_run_ms FROM thread_comparison("
        "p_first := 'game', p_second := 'game-symmetric') WHERE thread = 'B'"
    )
    assert con.execute(asked).fetchall() == [("game", "B", 4, 3)]
    unknown = "FROM thread_comparison(p_first := 'game', p_second := 'other')"
    assert con.execute(unknown).fetchall() == []
    other = "FROM thread_comparison(p_process := 'other')"
    assert con.execute(other).fetchall() == []


def test_each_priority_has_its_share_of_a_thread(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, priority, run_ns, of_thread_pct, ready_ns, switches_in FROM "
        "thread_priority(p_trace_id := 2) WHERE thread IN ('A', 'B')"
    ).fetchall()
    assert rows == [
        ("A", 12, 4 * MS, 100, 0, 1),
        ("B", 9, 3 * MS, 75, 0, 1),
        ("B", 10, 1 * MS, 25, 0, 1),
    ]
    half = con.execute(
        "SELECT run_ns, ready_ns, switches_in FROM thread_priority("
        f"p_trace_id := 1, p_from_ns := {2 * MS}, p_to_ns := {5 * MS}) WHERE thread = 'B'"
    ).fetchall()
    assert half == [(1 * MS, 2 * MS, 1)]
