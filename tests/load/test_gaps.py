"""Gaps leave time unknown unless the surrounding records explain it; nothing else changes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import add, drawn_database

from schedlens.load import gaps, store

TRACE = 1
Span = tuple[int, int, str]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as con:
        yield con


def recording(con: duckdb.DuckDBPyConnection, source: str, *lost: tuple[int, int, int]) -> None:
    """A recording of 1000 ns with gaps (cpu, start, end)."""
    add(con, "trace", trace_id=TRACE, label="drawn", source=source, start_clock=0,
        clock_hz=1_000_000_000, first_ns=0, duration_ns=1000, schema_version=1,
        tool_version="test")  # fmt: skip
    # Of another thread: without any switch, wakeups alone would prove nothing.
    add(con, "context_switch", trace_id=TRACE, ts=0, cpu=5, seq=0, prev_utid=99, next_utid=98,
        source="switch")  # fmt: skip
    for cpu, start, end in lost:
        add(con, "loss", trace_id=TRACE, cpu=cpu, start_ns=start, end_ns=end,
            signalled_by="PERF_RECORD_LOST")  # fmt: skip


def states(con: duckdb.DuckDBPyConnection, utid: int, *spans: Span) -> None:
    """Rows of the state machine for a thread: (start, end, state). Every slice was woken for."""
    slices = {start for start, _, state in spans if state == "running"}
    for place, (start, end, state) in enumerate(spans):
        row = {"trace_id": TRACE, "utid": utid, "ts": start, "dur": end - start,
               "left_censored": start == 0, "right_censored": end == 1000}  # fmt: skip
        if state == "running":
            before = spans[place - 1] if place else (start, start, "")
            ready = start - before[0] if before[1:] == (start, "ready") else 0
            add(con, "sched_slice", cpu=0, is_idle=False, ready_ns=ready, **row)
        elif state != "ready" or end not in slices:
            add(con, "thread_state_other", state=state, **row)


def wakeup(
    con: duckdb.DuckDBPyConnection,
    utid: int,
    ts: int,
    kind: str = "waking",
    *,
    effective: bool = True,
) -> None:
    add(con, "wakeup", trace_id=TRACE, ts=ts, cpu=1, seq=ts, utid=utid, kind=kind,
        effective=effective)  # fmt: skip


def found(con: duckdb.DuckDBPyConnection, utid: int) -> list[Span]:
    """The states of a thread, with equal neighbors merged."""
    whole: list[Span] = []
    for start, end, state in con.execute(
        "SELECT ts, ts + dur, state FROM thread_state WHERE utid = ? ORDER BY ts, dur", [utid]
    ).fetchall():
        if whole and whole[-1][1:] == (start, state):
            whole[-1] = (whole[-1][0], end, state)
        else:
            whole.append((start, end, state))
    return whole


# The thread is ready from 100 and switched in at 400; CPU 1 loses 200..300.
def test_ready_time_is_unknown_in_a_gap_of_any_cpu(con: duckdb.DuckDBPyConnection) -> None:
    recording(con, "etw", (1, 200, 300))
    states(con, 7, (0, 100, "waiting"), (100, 400, "ready"), (400, 1000, "running"))
    wakeup(con, 7, 100)
    gaps.apply(con, TRACE)
    assert found(con, 7) == [
        (0, 100, "waiting"), (100, 200, "ready"), (200, 300, "unknown"), (300, 400, "ready"),
        (400, 1000, "running"),
    ]  # fmt: skip


# A second wakeup at 350 shows that it ran and waited in between.
def test_second_wakeup_leaves_ready_time_unknown_before_it(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "etw", (1, 200, 300))
    states(con, 7, (0, 100, "waiting"), (100, 400, "ready"), (400, 1000, "running"))
    wakeup(con, 7, 100)
    wakeup(con, 7, 350)
    gaps.apply(con, TRACE)
    assert found(con, 7)[1:3] == [(100, 200, "ready"), (200, 350, "unknown")]
    assert found(con, 7)[3] == (350, 400, "ready")


# perf lists the threads that exist when it starts, by name: 7 may have started in the gap.
@pytest.mark.parametrize("listed", [True, False])
def test_thread_that_may_start_in_a_gap_is_unknown_before_it(
    con: duckdb.DuckDBPyConnection, listed: bool
) -> None:
    recording(con, "perf", (1, 200, 300))
    states(con, 7, (0, 500, "waiting"), (500, 510, "ready"), (510, 1000, "running"))
    for utid, ts in ((7, None if listed else 510), (8, None)):
        add(con, "thread", trace_id=TRACE, utid=utid, tid=utid, is_idle=False)
        add(con, "thread_name", trace_id=TRACE, utid=utid, ts=ts, name="a")
    wakeup(con, 7, 500)
    gaps.apply(con, TRACE)
    before = [(0, 200, "waiting"), (200, 300, "unknown")] if listed else [(0, 300, "unknown")]
    assert found(con, 7)[: len(before)] == before


# Windows lists all threads at the start of the recording: 7 started later.
@pytest.mark.parametrize("listed", [True, False])
def test_unlisted_windows_thread_is_unknown_before_first_record(
    con: duckdb.DuckDBPyConnection, listed: bool
) -> None:
    recording(con, "etw")
    states(con, 7, (0, 500, "waiting"), (500, 510, "ready"), (510, 1000, "running"))
    for utid, from_ns in ((7, None if listed else 500), (8, None)):
        add(con, "thread", trace_id=TRACE, utid=utid, tid=utid, is_idle=False)
        add(con, "affinity", trace_id=TRACE, utid=utid, valid_from_ns=from_ns, cpus=[0, 1],
            source="rundown")  # fmt: skip
    wakeup(con, 7, 500)
    gaps.apply(con, TRACE)
    before = (0, 500, "waiting" if listed else "unknown")
    assert found(con, 7) == [before, (500, 510, "ready"), (510, 1000, "running")]


# Woken on one CPU and switched in on another at 500: its ready time is zero.
@pytest.mark.parametrize("before", ["waiting", "ready"])
def test_wakeup_at_switch_in_proves_the_thread_waited(
    con: duckdb.DuckDBPyConnection, before: str
) -> None:
    recording(con, "perf", (1, 200, 300))
    states(con, 7, (0, 100, "running"), (100, 500, before), (500, 1000, "running"))
    other_slices(con, 120, 0)
    wakeup(con, 7, 500)
    gaps.apply(con, TRACE)
    assert "ready" not in [state for start, _, state in found(con, 7) if start >= 200]


# The wakeup at 500 shows that it waited from the gap's end on.
def test_wakeup_after_gap_proves_the_thread_waited(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "perf", (1, 200, 300), (2, 250, 320))
    states(con, 7, (0, 100, "running"), (100, 500, "waiting"), (500, 510, "ready"),
           (510, 1000, "running"))  # fmt: skip
    wakeup(con, 7, 500)
    gaps.apply(con, TRACE)
    assert found(con, 7)[1:4] == [
        (100, 200, "waiting"), (200, 320, "unknown"), (320, 500, "waiting"),
    ]  # fmt: skip


def other_slices(con: duckdb.DuckDBPyConnection, woken: int, unwoken: int) -> None:
    """Short slices of threads long before any gap, with and without a wakeup."""
    for number in range(woken + unwoken):
        utid, has_waker = 1000 + number, number < woken
        add(con, "sched_slice", trace_id=TRACE, utid=utid, cpu=1, ts=50, dur=10, is_idle=False,
            ready_ns=5 if has_waker else None, wait_ns=10 if has_waker else None,
            left_censored=False, right_censored=False)  # fmt: skip
        states(con, utid, (35, 45 if has_waker else 50, "waiting"))


# Far from the gap, none of the switch-ins, or one, lacks its wakeup. Its thread may be the only one
# that is woken in such a way, and two busy threads may have nearly all others.
@pytest.mark.parametrize(
    ("source", "woken", "unwoken", "after"),
    [
        ("perf", 120, 0, "ready"), ("perf", 119, 1, "unknown"), ("perf", 20, 0, "unknown"),
        ("perf", 1999, 1, "unknown"), ("etw", 120, 0, "unknown"),
    ],
)  # fmt: skip
def test_switch_in_without_wakeup_is_explained_by_gap(
    con: duckdb.DuckDBPyConnection, source: str, woken: int, unwoken: int, after: str
) -> None:
    recording(con, source, (1, 200, 300))
    states(con, 7, (0, 100, "running"), (100, 500, "waiting"), (500, 1000, "running"))
    other_slices(con, woken, unwoken)
    wakeup(con, 8, 50)
    gaps.apply(con, TRACE)
    expected = [(100, 200, "waiting"), (200, 300, "unknown"), (300, 500, after)]
    if after == "unknown":
        expected = [(100, 200, "waiting"), (200, 500, "unknown")]
    assert found(con, 7)[1:-1] == expected


def test_thread_without_record_after_gap_is_unknown_to_the_end(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "perf", (1, 200, 300))
    states(con, 7, (0, 100, "running"), (100, 1000, "ready"))
    gaps.apply(con, TRACE)
    assert found(con, 7)[1:] == [(100, 200, "ready"), (200, 1000, "unknown")]


def test_thread_running_through_gap_of_other_cpu_is_known(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "perf", (1, 200, 300))
    states(con, 7, (0, 1000, "running"))
    states(con, 8, (0, 200, "waiting"), (200, 200, "running"), (200, 1000, "running"))
    gaps.apply(con, TRACE)
    assert found(con, 7) == [(0, 1000, "running")]
    assert found(con, 8)[0] == (0, 200, "waiting")


def test_ready_and_wait_time_of_slice_after_gap_are_null(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "perf", (1, 200, 300))
    columns = {"trace_id": TRACE, "cpu": 0, "is_idle": False, "left_censored": False,
               "right_censored": False, "waker_utid": 9, "prev_cpu": 0}  # fmt: skip
    # Waiting 50..100, ready 100..400: the gap is in the ready time.
    add(con, "sched_slice", utid=7, ts=400, dur=10, ready_ns=300, wait_ns=50, **columns)
    # Waiting 100..450, ready 450..460: the gap is in the waiting time.
    add(con, "sched_slice", utid=8, ts=460, dur=10, ready_ns=10, wait_ns=350, **columns)
    # Waiting 310..320, ready 320..330: after the gap.
    add(con, "sched_slice", utid=9, ts=330, dur=10, ready_ns=10, wait_ns=10, **columns)
    gaps.apply(con, TRACE)
    rows = con.execute(
        "SELECT utid, ready_ns, wait_ns, waker_utid, prev_cpu FROM sched_slice ORDER BY utid"
    ).fetchall()
    assert rows == [
        (7, None, None, None, None), (8, 10, None, 9, None), (9, 10, 10, 9, 0)
    ]  # fmt: skip


# The CPU goes offline at 300 in the slice of a thread, returns at 700, and switches at 800.
def test_cpu_is_offline_between_its_switches(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "perf")
    for online, start in ((True, None), (False, 300), (True, 700)):
        add(con, "cpu", trace_id=TRACE, cpu=0, online=online, valid_from_ns=start)
    states(con, 7, (0, 900, "running"), (900, 1000, "waiting"))
    con.execute("UPDATE sched_slice SET end_reason = 'blocked'")
    add(con, "cpu_state_other", trace_id=TRACE, cpu=0, ts=900, dur=100, state="idle")
    gaps.apply(con, TRACE)
    tiles = con.execute("SELECT ts, ts + dur, state FROM cpu_state ORDER BY ts").fetchall()
    assert tiles == [
        (0, 300, "thread"), (300, 700, "offline"), (700, 900, "unknown"), (900, 1000, "idle"),
    ]  # fmt: skip
    assert found(con, 7) == [(0, 300, "running"), (300, 900, "unknown"), (900, 1000, "waiting")]
    assert con.execute("SELECT dur, end_reason FROM sched_slice").fetchall() == [(300, "unknown")]


def test_recording_without_gaps_keeps_every_row(con: duckdb.DuckDBPyConnection) -> None:
    recording(con, "perf")
    states(con, 7, (0, 100, "waiting"), (100, 400, "ready"), (400, 1000, "running"))
    before = con.execute("FROM thread_state ORDER BY ALL").fetchall()
    gaps.apply(con, TRACE)
    assert con.execute("FROM thread_state ORDER BY ALL").fetchall() == before


def slice_of(con: duckdb.DuckDBPyConnection, utid: int, ts: int, **facts: object) -> None:
    """What is known of the time before a slice."""
    changes = ", ".join(f"{name} = ?" for name in facts)
    con.execute(
        f"UPDATE sched_slice SET {changes} WHERE utid = ? AND ts = ?", [*facts.values(), utid, ts]
    )


def test_last_cpu_is_unknown_if_thread_may_have_run_in_gap(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "etw", (1, 200, 300))
    states(con, 7, (0, 100, "running"), (100, 500, "waiting"), (500, 600, "running"))
    states(con, 7, (600, 700, "waiting"), (700, 800, "running"))
    for ts in (500, 700):
        slice_of(con, 7, ts, ready_ns=0, prev_cpu=1)
    gaps.apply(con, TRACE)
    rows = con.execute("SELECT ts, prev_cpu FROM sched_slice WHERE ts > 0 ORDER BY ts").fetchall()
    assert rows == [(500, None), (700, 1)]


# A coarse clock gives both slices behind the gap one time: either may be the first.
def test_last_cpu_of_all_slices_at_one_time_is_unknown(con: duckdb.DuckDBPyConnection) -> None:
    recording(con, "etw", (1, 200, 300))
    states(con, 7, (0, 100, "running"), (100, 500, "waiting"), (500, 500, "running"))
    states(con, 7, (500, 600, "running"), (600, 700, "waiting"), (700, 800, "running"))
    for ts in (500, 700):
        slice_of(con, 7, ts, ready_ns=0, prev_cpu=1)
    gaps.apply(con, TRACE)
    rows = con.execute("SELECT ts, prev_cpu FROM sched_slice WHERE ts > 0 ORDER BY ts").fetchall()
    assert rows == [(500, None), (500, None), (700, 1)]


# 7 blocks at 400 and is switched in at 450. Its wakeup may be lost in a gap while it ran, or is one
# that the recorder did not write.
@pytest.mark.parametrize("lost", [(200, 300), (10, 50)])
def test_wait_without_wakeup_is_unknown(
    con: duckdb.DuckDBPyConnection, lost: tuple[int, int]
) -> None:
    recording(con, "etw", (1, *lost))
    states(con, 7, (100, 400, "running"), (400, 450, "waiting"), (450, 550, "running"))
    slice_of(con, 7, 450, ready_ns=None, wait_ns=None, prev_cpu=0)
    wakeup(con, 8, 20)
    gaps.apply(con, TRACE)
    assert found(con, 7)[1] == (400, 450, "unknown")
    # It ran nowhere else in between.
    last = con.execute("SELECT prev_cpu FROM sched_slice WHERE ts = 450").fetchall()
    assert last == [(0,)]


# 7 is woken at 450, when it is switched in; at 600 it is switched in without a wakeup, and waits
# from 700 to the end.
@pytest.mark.parametrize("kind", ["waking", "wakeup_new"])
def test_last_wait_after_one_without_wakeup_is_unknown(
    con: duckdb.DuckDBPyConnection, kind: str
) -> None:
    recording(con, "perf")
    for thread in (7, 8):
        states(con, thread, (100, 400, "running"), (400, 450, "waiting"), (450, 500, "running"))
        states(con, thread, (500, 600, "waiting"), (600, 700, "running"), (700, 1000, "waiting"))
        wakeup(con, thread, 450, kind)
        slice_of(con, thread, 450, ready_ns=0 if kind == "waking" else None)
    slice_of(con, 7, 600, ready_ns=None)
    slice_of(con, 8, 600, ready_ns=0)
    gaps.apply(con, TRACE)
    off = {
        thread: [state for _, _, state in found(con, thread) if state != "running"]
        for thread in (7, 8)
    }
    missed = ["waiting", "unknown", "unknown"] if kind == "waking" else ["waiting"] * 3
    assert off == {7: missed, 8: ["waiting"] * 3}


# The first record after the gap switches 7 out; when it was switched in is unknown.
def test_wait_without_wakeup_after_slice_begun_in_gap_is_unknown(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "etw", (0, 200, 400))
    states(con, 7, (0, 400, "unknown"), (400, 400, "running"), (400, 450, "waiting"))
    states(con, 7, (450, 550, "running"))
    con.execute("UPDATE sched_slice SET left_censored = true WHERE ts = 400 AND dur = 0")
    slice_of(con, 7, 450, ready_ns=None, wait_ns=50, prev_cpu=0)
    wakeup(con, 8, 20)
    gaps.apply(con, TRACE)
    assert (400, 450, "unknown") in found(con, 7)


# 7 starts at 100, before the gap of CPU 1, and is woken at 500: only `wakeup_new` is its first
# wakeup. Windows records one kind for both.
@pytest.mark.parametrize(
    ("kind", "after"), [("wakeup_new", "new"), ("waking", "waiting"), ("ready", "unknown")]
)
def test_kind_of_wakeup_shows_whether_a_thread_is_still_new_after_a_gap(
    kind: str, after: str, con: duckdb.DuckDBPyConnection
) -> None:
    recording(con, "etw" if kind == "ready" else "perf", (1, 200, 300))
    states(con, 7, (100, 500, "new"), (500, 550, "ready"), (550, 1000, "running"))
    wakeup(con, 7, 500, kind)
    gaps.apply(con, TRACE)
    assert found(con, 7) == [
        (100, 200, "new"),
        *([(200, 500, "unknown")] if after == "unknown"
          else [(200, 300, "unknown"), (300, 500, after)]),
        (500, 550, "ready"), (550, 1000, "running"),
    ]  # fmt: skip


# CPU 1 wakes 7 at 350, in its slice: 7 was ready from 400 on, if it ran in the gap, and waited, if
# the wakeup came too early.
def test_wait_after_wakeup_in_its_slice_is_unknown_if_a_gap_follows(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recording(con, "perf", (1, 450, 600))
    states(con, 7, (0, 300, "waiting"), (300, 400, "running"), (400, 800, "waiting"),
           (800, 850, "ready"), (850, 1000, "running"))  # fmt: skip
    wakeup(con, 7, 300)
    wakeup(con, 7, 350, effective=False)
    wakeup(con, 7, 800)
    gaps.apply(con, TRACE)
    assert found(con, 7) == [
        (0, 300, "waiting"), (300, 400, "running"), (400, 600, "unknown"), (600, 800, "waiting"),
        (800, 850, "ready"), (850, 1000, "running"),
    ]  # fmt: skip


def _time_of_a_thread_in_a_gap(periods: int) -> float:
    """Processor time for one thread with this many waits and wakeups, all within one gap."""
    with drawn_database() as con:
        store.set_for_answers(con)
        recording(con, "perf", (0, 1, 10 * periods))
        con.execute("UPDATE trace SET duration_ns = ?", [10 * periods + 10])
        con.execute(
            "INSERT INTO thread_state_other BY NAME "
            "SELECT 1 AS trace_id, 7 AS utid, 5 * i AS ts, 5 AS dur, "
            "CASE WHEN i % 2 = 0 THEN 'ready' ELSE 'waiting' END AS state, "
            "false AS left_censored, false AS right_censored FROM range(2 * ?) AS r(i)",
            [periods],
        )
        con.execute(
            "INSERT INTO wakeup BY NAME "
            "SELECT 1 AS trace_id, 10 * i AS ts, 1 AS cpu, i AS seq, 7 AS utid, 'waking' AS kind, "
            "i % 2 = 0 AS effective FROM range(?) AS r(i)",
            [periods],
        )
        before = time.process_time()
        gaps.apply(con, TRACE)
        spent = time.process_time() - before
        known = con.execute("SELECT count(*) FROM thread_state WHERE state <> 'unknown'").fetchall()
        assert known[0][0] < periods
    return spent


def test_time_is_linear_in_the_wakeups_of_a_thread() -> None:
    # All pairs of 40,000 periods and wakeups would take several seconds.
    short, long = (_time_of_a_thread_in_a_gap(periods) for periods in (10_000, 40_000))
    assert long <= 8 * short + 0.3
