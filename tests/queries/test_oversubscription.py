"""Workers of a pool: their sections, and which count their number follows."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import concluded, yielded
from stored_states import store

MS = 1_000_000
CPUS = [Cpu(0, 0, 0), Cpu(1, 0, 1), Cpu(2, 2, 0), Cpu(3, 2, 1)]

# ms         0    10   20   30   40   50
# cpu 0      W1 W1 W1 .  .  W1 .  .          0..15   25..30
# cpu 1      W2 W2 .  .  .  .                0..10
# cpu 2         W3 W3 .                      5..20 (ready from 0)
# cpu 3            main                      10..14
SLICES = [
    Slice("game/W1", 0, 0, 15 * MS),
    Slice("game/W2", 1, 0, 10 * MS),
    Slice("game/W3", 2, 5 * MS, 15 * MS, ready=5 * MS),
    Slice("game/W1", 0, 25 * MS, 5 * MS),
    Slice("game/main", 3, 10 * MS, 4 * MS),
]
# The same with one worker fewer.
FEWER = [
    Slice("game/W1", 0, 0, 12 * MS),
    Slice("game/W2", 2, 0, 13 * MS),
]


@pytest.fixture(scope="module")
def drawn() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 50 * MS)
        for begin, end, busy, ready in (
            (0, 5, 2, 1), (5, 10, 3, 0), (10, 14, 3, 0), (14, 15, 2, 0), (15, 20, 1, 0),
            (20, 25, 0, 0), (25, 30, 1, 0), (30, 50, 0, 0),
        ):  # fmt: skip
            trace.add(
                "concurrency_slice", ts=begin * MS, dur=(end - begin) * MS, busy=busy, unknown=0,
                ready=ready, p=0, e=0, other=0, smt=0,
            )  # fmt: skip
        DrawnTrace(database, FEWER, CPUS, 50 * MS, trace_id=2)
        yield database


def test_runnable_threads_are_compared_with_cpus(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT runnable, ns, pct, ready, above_cpus FROM runnable_count").fetchall()
    assert rows == [
        (0, 25 * MS, 50.0, 0.0, False),
        (1, 10 * MS, 20.0, 0.0, False),
        (2, 1 * MS, 2.0, 0.0, False),
        (3, 14 * MS, 28.0, 5 / 14, False),
    ]


def test_pool_has_its_parallel_sections(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT pool, ts, dur, workers, most_running, run_ns, ready_ns "
        "FROM parallel_section(p_trace_id := 1)"
    ).fetchall()
    assert rows == [
        ("W#", 0, 20 * MS, 3, 3, 40 * MS, 5 * MS),
        ("W#", 25 * MS, 5 * MS, 1, 1, 5 * MS, 0),
    ]
    # Two equal threads are not a pool by default.
    assert con.execute("FROM parallel_section(p_trace_id := 2)").fetchall() == []
    rows = con.execute(
        "SELECT ts, dur, workers, run_ns FROM parallel_section(p_trace_id := 2, p_least := 2)"
    ).fetchall()
    assert rows == [(0, 13 * MS, 2, 25 * MS)]


def test_wall_time_against_workers(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT workers, sections, mean_ns, run_mean_ns, ready_mean_ns, parallel "
        "FROM section_scaling(p_trace_id := 1)"
    ).fetchall()
    assert rows == [(1, 1, 5 * MS, 5 * MS, 0, 1.0), (3, 1, 20 * MS, 40 * MS, 5 * MS, 2.0)]


def test_worker_count_follows_logical_cpus(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT pool, threads, cpus, cores, p_cores, follows, most_running, run_ns, ready_ns, "
        "sections, section_mean_ns, full_sections, full_section_mean_ns "
        "FROM worker_pool(p_trace_id := 1)"
    ).fetchall()
    assert rows == [
        ("W#", 3, 4, 2, 2, "logical CPUs", 3, 45 * MS, 5 * MS, 2, 12_500_000, 1, 20 * MS)
    ]  # fmt: skip


def test_info_alone_and_warning_if_smaller_pool_is_as_fast(
    con: duckdb.DuckDBPyConnection,
) -> None:
    (found,) = yielded(con, "oversubscription")
    # Ready 5 ms of 50 ms runnable.
    assert (found.severity, found.cost_ns) == ("warning", 5 * MS)
    store(con)
    con.execute("UPDATE thread_state SET dur = 1000000, ts = 4000000 WHERE state = 'ready'")
    (found,) = yielded(con, "oversubscription")
    assert (found.severity, found.cost_ns) == ("info", MS)
    assert found.title == "Pool has 3 workers on 4 logical CPUs (2 cores)"
    assert "3 threads W# of game ran" in found.detail
    assert len(con.execute(found.evidence_sql).fetchall()) == 2
    assert con.execute(found.counter_evidence_sql or "").fetchall() == []


def test_unknown_cores_are_not_judged(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE cpu SET core = NULL, smt_index = NULL, core_type = NULL")
    outcome = concluded(con, "oversubscription")
    assert outcome.conclusion == "not_applicable"
    assert outcome.reason.endswith("which logical CPUs share a core is unknown.")


def test_unnamed_threads_are_not_a_pool(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE thread SET name = NULL")
    con.execute("DELETE FROM thread_name")
    assert con.execute("FROM worker_pool(p_trace_id := 1)").fetchall() == []
    assert concluded(con, "oversubscription").reason.startswith("No pool of workers: ")
