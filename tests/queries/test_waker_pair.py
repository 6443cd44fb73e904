"""Who woke whom, also in terms of other tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

# ns        0    100  200  300  400  500
# cpu 0     A A A . . . B B          A 0..150, waker unknown; B 300..400 by A
# cpu 1     . B B . C C C C          B 100..200 by A; C 250..450 by the interrupt on cpu 1
SLICES = [
    Slice("game/A", 0, 0, 150),
    Slice("game/B", 1, 100, 100, ready=20, waker="game/A"),
    Slice("game/B", 0, 300, 100, ready=60, wait=40, waker="game/A", end="preempted"),
    Slice("other/C", 1, 250, 200, ready=10, waker="swapper/1", end="exit"),
]


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as database:
        drawn = DrawnTrace(database, SLICES, [Cpu(0, 0), Cpu(1, 1)], 500)
        yield drawn


def test_pairs_have_wakeups_and_ready_times(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT waker_process, waker_thread, from_idle, process, thread, wakings, ready_ns, "
        "ready_max_ns, wait_ns FROM waker_pair"
    ).fetchall()
    assert rows == [
        ("game", "A", False, "game", "B", 2, 80, 60, 40),
        (None, None, True, "other", "C", 1, 10, 10, None),
    ]


def test_process_filter_applies_to_the_woken_thread(trace: DrawnTrace) -> None:
    rows = trace.con.execute("SELECT thread FROM waker_pair(p_process := 'other')").fetchall()
    assert rows == [("C",)]


def test_cpu_usage_precise(trace: DrawnTrace) -> None:
    trace.con.execute("UPDATE context_switch SET prev_priority = 120, prev_cstate = 3")
    rows = trace.con.execute(
        'SELECT "New Process Name", "Thread Name", "Readying Process Name", "Readying Thread Id", '
        '"Ready Time (s)", "Time Since Last (µs)", "Ready (µs)", "Waits (µs)", "Count: Waits", '
        '"Switch-In Time (s)", "Last Switch-Out Time (s)", "Next Switch-Out Time (s)", '
        '"New In Pri", "New Out Pri", "New Prev Out Pri", "New Prev State", "New State", '
        '"Old Process Name", "Old Thread Id", "CPU", "Prev CState", "CPU Usage (in view) (ms)", '
        '"% CPU Usage" FROM wpa.cpu_usage_precise'
    ).fetchall()
    a = trace.tid("game/A")
    assert rows == [
        ("game", "A", None, None, 0.0, None, 0.0, None, None, 0.0, None, 150 / 1e9, 120, 120,
         None, None, 1, "Idle", 0, 0, 3, 150 / 1e6, 15.0),
        ("game", "B", "game", a, 80 / 1e9, None, 0.02, None, None, 100 / 1e9, None, 200 / 1e9, 120,
         120, None, None, 1, "Idle", 0, 1, 3, 100 / 1e6, 10.0),
        ("other", "C", "Idle", 0, 240 / 1e9, None, 0.01, None, None, 250 / 1e9, None, 450 / 1e9,
         120, 120, None, None, 16, "Idle", 0, 1, 3, 200 / 1e6, 20.0),
        ("game", "B", "game", a, 240 / 1e9, 0.1, 0.06, 0.04, 1, 300 / 1e9, 200 / 1e9, 400 / 1e9,
         120, 120, 120, 1, 256, "Idle", 0, 0, 3, 100 / 1e6, 10.0),
    ]  # fmt: skip


def test_in_view_columns_cover_the_window(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        'SELECT "Thread Name", "CPU Usage (in view) (ms)", "% CPU Usage" '
        "FROM wpa.cpu_usage_precise(p_from_ns := 50, p_to_ns := 150)"
    ).fetchall()
    assert rows == [("A", 100 / 1e6, 50.0), ("B", 50 / 1e6, 25.0), ("C", 0.0, 0.0), ("B", 0.0, 0.0)]


def test_perfetto_sched(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT ts, dur, cpu, utid, end_state, priority, ucpu FROM perfetto.sched WHERE cpu = 0"
    ).fetchall()
    idle, ucpu = trace.utid("swapper/0"), 1 << 32
    assert rows == [
        (0, 150, 0, trace.utid("game/A"), "S", 120, ucpu),
        (150, 150, 0, idle, "R", None, ucpu),
        (300, 100, 0, trace.utid("game/B"), "R+", 120, ucpu),
        (400, 100, 0, idle, None, None, ucpu),
    ]


def test_perfetto_thread_state(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT ts, dur, state, cpu FROM perfetto.thread_state WHERE utid = ?",
        [trace.utid("game/B")],
    ).fetchall()
    assert rows == [
        (0, 80, "S", None), (80, 20, "R", None), (100, 100, "Running", 1), (200, 40, "S", None),
        (240, 60, "R", None), (300, 100, "Running", 0), (400, 100, "R+", None),
    ]  # fmt: skip


def test_perfetto_thread_process_and_cpu(trace: DrawnTrace) -> None:
    assert trace.con.execute(
        "SELECT name, is_idle, is_main_thread FROM perfetto.thread ORDER BY name"
    ).fetchall() == [
        ("A", False, False), ("B", False, False), ("C", False, False),
        ("swapper/0", True, None), ("swapper/1", True, None),
    ]  # fmt: skip
    assert trace.con.execute("SELECT upid, pid, name FROM perfetto.process").fetchall() == [
        (1 << 32 | 1, 501, "game"), (1 << 32 | 2, 502, "other"),
    ]  # fmt: skip
    assert trace.con.execute("SELECT ucpu, cpu, cluster_id FROM perfetto.cpu").fetchall() == [
        (1 << 32, 0, 0), (1 << 32 | 1, 1, 0),
    ]  # fmt: skip


def test_latency_has_perf_columns_and_native_delays(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        'SELECT "Task", "Runtime ms", "Count", "Avg delay ms", "Max delay ms", "Max delay start", '
        '"Max delay end" FROM perf.latency'
    ).fetchall()
    assert rows[0] == (
        f"B:{trace.tid('game/B')}",
        0.0002,
        2,
        0.00004,
        0.00006,
        1.00000024,
        1.0000003,
    )
