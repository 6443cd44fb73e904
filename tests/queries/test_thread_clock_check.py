"""Each thread's own CPU clock against its running time in the trace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import judged, plain
from stored_states import store

MS = 1_000_000
SLICES = [Slice("game/A", 0, 0, 500 * MS), Slice("game/B", 1, 0, 100 * MS)]


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as con:
        drawn = DrawnTrace(con, SLICES, [Cpu(0, 0), Cpu(1, 1)], 1000 * MS)
        con.execute("DELETE FROM machine_setting")
        drawn.add("machine_setting", key="hz", value="250")
        # ms: the clock of A agrees, that of B shows 30 ms more; C has no thread in the trace.
        for tid, name, grown in ((1, "game/A", 499), (2, "game/B", 130)):
            utid = drawn.utid(name)
            drawn.add("snapshot_thread", ts=0, edge="begin", utid=utid, tid=tid, pid=1,
                      user_ns=7, system_ns=0)  # fmt: skip
            drawn.add("snapshot_thread", ts=900 * MS + tid, edge="end", utid=utid, tid=tid, pid=1,
                      user_ns=7, system_ns=grown * MS)  # fmt: skip
        for edge in ("begin", "end"):
            drawn.add("snapshot_thread", ts=0, edge=edge, tid=3, pid=1, user_ns=0, system_ns=0)
        yield drawn


def test_every_thread_in_both_snapshots_is_checked(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT thread, step_ns, run_ns, unknown_ns, clock_ns, slices, gap_ns, reading_error_ns, "
        "gap_per_slice_ns, clock_gap_pct FROM thread_clock_check"
    ).fetchall()
    # Two ticks of 4 ms are the error of the readings: 22 of the 30 ms are beyond it.
    assert rows == [
        ("B", 900 * MS + 2, 100 * MS, 0, 130 * MS, 1, 30 * MS, 8 * MS, 30 * MS, 22.0),
        ("A", 900 * MS + 1, 500 * MS, 0, 499 * MS, 1, -MS, 8 * MS, -MS, 0.0),
    ]


def test_median_and_worst_gap_of_a_recording(trace: DrawnTrace) -> None:
    rows = trace.con.execute("SELECT * FROM clock_gap").fetchall()
    assert rows == [(1, 2, 11.0, 22.0, trace.utid("game/B"), 22.0)]
    (gap,) = [f for f in judged(trace.con, "trace_quality") if f.kind == "clock_gap"]
    assert gap.severity == "info"
    assert plain(gap.title) == "Run times can be off by 22 %"
    assert (
        "the CPU clock of B (2) shows 130 ms, 22 % more than the trace with 100 ms in 1 slice; the "
        "median of 2 threads is 11 %." in plain(gap.detail)
    )


def test_clock_in_ticks_allows_tick_error(trace: DrawnTrace) -> None:
    # Without schedstat every time is a multiple of 10 ms.
    trace.con.execute(
        "UPDATE snapshot_thread SET user_ns = 0, system_ns = system_ns // 10000000 * 10000000"
    )
    rows = trace.con.execute(
        "SELECT thread, reading_error_ns, clock_gap_pct FROM thread_clock_check"
    ).fetchall()
    assert rows == [("B", 20 * MS, 10.0), ("A", 20 * MS, 0.0)]


def test_unknown_time_explains_a_gap(trace: DrawnTrace) -> None:
    utid = trace.utid("game/B")
    store(trace.con)
    trace.con.execute(
        "UPDATE thread_state SET state = 'unknown', dur = 22000000 "
        f"WHERE utid = {utid} AND ts = 100000000"
    )
    ((gap,),) = trace.con.execute(
        f"SELECT clock_gap_pct FROM thread_clock_check WHERE utid = {utid}"
    ).fetchall()
    assert gap == 0.0


# Buffers that overwrite their oldest records make the recording begin after the first snapshot.
def test_time_before_the_recording_explains_a_gap(trace: DrawnTrace) -> None:
    trace.con.execute("UPDATE trace SET first_ns = 22000000")
    utid = trace.utid("game/B")
    row = trace.con.execute(
        f"SELECT unknown_ns, clock_gap_pct FROM thread_clock_check WHERE utid = {utid}"
    ).fetchone()
    assert row == (22 * MS, 0.0)


def test_missing_reading_times_report_no_difference(trace: DrawnTrace) -> None:
    trace.con.execute("UPDATE snapshot_thread SET ts = 900000000 WHERE edge = 'end'")
    rows = trace.con.execute(
        "SELECT gap_ns, reading_error_ns, clock_gap_pct FROM thread_clock_check ORDER BY gap_ns"
    ).fetchall()
    assert rows == [(-MS, None, None), (30 * MS, None, None)]
    assert trace.con.execute("FROM clock_gap").fetchall() == []
