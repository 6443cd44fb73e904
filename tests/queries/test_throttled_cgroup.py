"""Snapshots at both edges of a step: time throttled by a quota, time stolen by a hypervisor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database, judge_ready
from judged import judged, outcome

# ns      0    100  200  300  400  500      A leaves runnable at 100, returns at 400
SLICES = [Slice("game/A", 0, 0, 100, end="throttled_or_moved"),
         Slice("game/A", 0, 400, 100, ready=300, wait=0, end="trace_end")]  # fmt: skip


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as database:
        drawn = DrawnTrace(database, SLICES, [Cpu(0, 0)], 500)
        utid = drawn.utid("game/A")
        drawn.add("ready_slice", utid=utid, ts=100, dur=250, ready_ts=100, entered_cpu=0,
                  throttled=True, cgroup_throttled=False, idle_exit=False, idle_ns=250,
                  unknown_available=False, affinity_known=True)  # fmt: skip
        drawn.add("ready_slice", utid=utid, ts=350, dur=50, ready_ts=100, entered_cpu=0,
                  throttled=False, cgroup_throttled=False, idle_exit=True, idle_ns=250,
                  unknown_available=False, affinity_known=True)  # fmt: skip
        drawn.add("snapshot_thread", ts=0, edge="begin", utid=utid, tid=1, pid=1, cgroup="/limited")
        for edge, ts, usage, throttled in (("begin", 0, 1000, 40), ("end", 500, 1200, 340)):
            drawn.add("snapshot_cgroup", ts=ts, edge=edge, cgroup="/limited", usage_ns=usage,
                      throttled_ns=throttled, nr_throttled=throttled // 300, quota_ns=200,
                      period_ns=1000)  # fmt: skip
            drawn.add("snapshot_cgroup", ts=ts, edge=edge, cgroup="/free", usage_ns=usage,
                      throttled_ns=0, nr_throttled=0)  # fmt: skip
            drawn.add("snapshot_cgroup", ts=ts, edge=edge, cgroup="/silent", quota_ns=1,
                      period_ns=2)  # fmt: skip
        for edge, user, steal in (("begin", 100, 50), ("end", 350, 60)):
            drawn.add("snapshot_cpu", ts=0 if edge == "begin" else 500, edge=edge, cpu=0,
                      user_ns=user, system_ns=7, idle_ns=0, irq_ns=0, softirq_ns=0,
                      steal_ns=steal)  # fmt: skip
            drawn.add("snapshot_cpu", ts=0 if edge == "begin" else 500, edge=edge, cpu=1,
                      user_ns=500 - user)  # fmt: skip
        yield drawn


def test_throttled_time_and_ready_time_between_snapshots(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT cgroup, quota_cpus, step_ns, usage_ns, used_cpus, throttled_ns, throttled_periods, "
        "threads, ready_ns, ready_throttled_ns FROM throttled_cgroup"
    ).fetchall()
    assert rows == [
        ("/limited", 0.2, 500, 200, 0.4, 300, 1, 1, 300, 250),
        ("/silent", 0.5, 500, None, None, None, None, 0, None, None),
    ]


def test_ready_time_is_clipped_to_the_window(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT ready_ns, ready_throttled_ns FROM throttled_cgroup(p_from_ns := 300, "
        "p_to_ns := 380) WHERE cgroup = '/limited'"
    ).fetchall()
    assert rows == [(80, 50)]


def test_system_and_steal_time_are_counted(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT cpu, step_ns, user_ns, system_ns, steal_ns, steal_pct FROM steal"
    ).fetchall()
    # CPU 1 ran backwards and has no system time and no steal time.
    assert rows == [(0, 500, 250, 0, 10, 2.0), (1, 500, None, None, None, None)]


def test_cgroup_removed_in_the_step_has_its_last_reading(trace: DrawnTrace) -> None:
    for edge, ts, throttled in (("begin", 0, 0), ("last", 400, 70)):
        trace.add("snapshot_cgroup", ts=ts, edge=edge, cgroup="/ended", usage_ns=ts,
                  throttled_ns=throttled, nr_throttled=1, quota_ns=1, period_ns=2)  # fmt: skip
    utid = trace.utid("game/A")
    trace.add("thread_cgroup", ts=200, utid=utid, tid=1, cgroup="/ended", source="reading")
    rows = trace.con.execute(
        "SELECT cgroup, is_complete, usage_ns, throttled_ns, threads, ready_ns "
        "FROM throttled_cgroup WHERE cgroup IN ('/ended', '/limited') ORDER BY cgroup"
    ).fetchall()
    # The thread was in both cgroups.
    assert rows == [("/ended", False, 400, 70, 1, 300), ("/limited", True, 200, 300, 1, 300)]


def test_cgroup_removed_before_reading_is_unknown(trace: DrawnTrace) -> None:
    trace.con.execute("DELETE FROM snapshot_cgroup WHERE cgroup IN ('/limited', '/silent')")
    trace.con.execute("UPDATE ready_slice SET throttled = FALSE, cgroup_throttled = TRUE")
    utid = trace.utid("game/A")
    trace.add("thread_cgroup", ts=200, utid=utid, tid=1, cgroup="/limited", source="reading")
    judge_ready(trace.con)
    rows = trace.con.execute(
        "SELECT cgroup, quota_cpus, is_complete, usage_ns, throttled_ns, throttled_periods, "
        "threads FROM throttled_cgroup"
    ).fetchall()
    assert rows == [("/limited", None, False, None, None, None, 1)]
    obstacles = trace.con.execute(
        "SELECT ts, dur, obstacle FROM ready_obstacle_slice(p_min_idle_ns := 100) ORDER BY ts"
    ).fetchall()
    assert obstacles == [(100, 250, "unknown"), (350, 50, "idle_exit")]
    (found,) = judged(trace.con, "throttled_cgroup")
    assert (found.severity, found.kind) == ("warning", "unread_quota")
    assert "cgroup /limited with 1 thread ended before its counters were read" in found.detail
    assert found.bound == "range"
    # Threads that were hardly ready cannot have been throttled for long.
    trace.con.execute("UPDATE ready_slice SET ts = 100, dur = 4 WHERE idle_exit = FALSE")
    trace.con.execute("DELETE FROM ready_slice WHERE idle_exit")
    clean = outcome(trace.con, "throttled_cgroup")
    assert clean.conclusion == "clean"
    assert clean.reason.endswith("(1 ended before they were read).")
