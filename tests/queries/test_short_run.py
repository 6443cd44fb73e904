"""Runs after a wakeup and a critical path: which thread is critical, and where it was preempted."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import yielded

MS = 1_000_000
US = 1_000
CPUS = [Cpu(0, 0, 0, "P", 1), Cpu(1, 1, 0, "E", 0)]

# Two frames of 20 ms. W wakes for 30 us four times, then for 8 ms in the middle of which it is
# preempted for 2 ms and returns on the E core; main presents.
#   frame 0: main 0..2, W 2..15 (running 3..7, off 7..9, on E 9..13), main 15..20
SLICES = [
    Slice("game/main", 0, 0, 2 * MS),
    *[Slice("game/W", 0, 2 * MS + n * 200 * US, 30 * US, wait=10 * US) for n in range(4)],
    Slice("game/W", 0, 3 * MS, 4 * MS, wait=10 * US, end="preempted"),
    Slice("other/X", 0, 7 * MS, 2 * MS),
    Slice("game/W", 1, 9 * MS, 4 * MS, ready=2 * MS, wait=0),
    Slice("game/main", 0, 15 * MS, 5 * MS, wait=13 * MS, waker="game/W"),
]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 40 * MS)
        main, worker, upid = trace.utid("game/main"), trace.utid("game/W"), 1 << 32 | 1
        for number in range(2):
            trace.add("frame", frame=number, upid=upid, utid=main, process="game",
                      start_ns=number * 20 * MS, dur_ns=20 * MS, dialect="dxgi")  # fmt: skip
        for frame, hop, utid, begin, end in (
            (0, 0, main, 0, 2), (0, 1, worker, 2, 15), (0, 0, main, 15, 20), (1, 0, main, 20, 40),
        ):  # fmt: skip
            trace.add("frame_path", upid=upid, frame=frame, hop=hop, utid=utid, ts=begin * MS,
                      dur=(end - begin) * MS)  # fmt: skip
        yield database


def test_lists_runs_after_a_wakeup(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, runs, short_runs, short_pct, run_ns, short_ns, p50_ns, longest_ns, "
        "interrupted FROM short_run"
    ).fetchall()
    assert rows == [
        ("W", 5, 4, 80.0, 8_120_000, 120_000, 30_000, 8 * MS, 1),
        ("main", 1, 0, 0.0, 5 * MS, 0, 5 * MS, 5 * MS, 0),
    ]


def test_longer_limit_and_window_apply(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, runs, short_runs FROM short_run(p_short_ns := 10000000, "
        "p_from_ns := 2500000)"
    ).fetchall()
    assert rows == [("W", 2, 2), ("main", 1, 1)]


def test_lists_threads_the_frames_waited_for(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, frames, path_ns, path_pct, presents FROM path_thread"
    ).fetchall()
    assert rows == [("main", 2, 27 * MS, 67.5, True), ("W", 1, 13 * MS, 32.5, False)]


def test_path_follows_wakeups(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT hop, thread, ts, dur, waker_thread FROM path_hop(p_frame := 0)"
    ).fetchall()
    assert rows == [
        (1, "main", 0, 2 * MS, None),
        (2, "W", 2 * MS, 13 * MS, "main"),
        (3, "main", 15 * MS, 5 * MS, "W"),
    ]
    tiled = con.execute("SELECT frame, sum(dur) = any_value(dur_ns) FROM path_hop GROUP BY frame")
    assert sorted(tiled.fetchall()) == [(0, True), (1, True)]


def test_lists_where_it_lost_its_cpu(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT frame, out_ns, end_reason, from_cpu, from_type, to_cpu, to_type, off_ns "
        "FROM path_switch"
    ).fetchall()
    assert rows == [(0, 7 * MS, "preempted", 0, "P", 1, "E", 2 * MS)]


def test_reports_the_finding(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "short_run")
    assert (found.severity, found.cost_ns, found.cost_pct) == ("critical", 2 * MS, 5.0)
    assert "(80 % of its 5 runs after a wakeup last under 1 ms)" in found.detail
    assert found.detail.endswith("returned on an E core 1 time.")
    assert len(con.execute(found.evidence_sql).fetchall()) == 1
    assert len(con.execute(found.counter_evidence_sql or "").fetchall()) == 2
