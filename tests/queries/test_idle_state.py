"""Idle states, frequencies, and interrupts: how long and how fast; unended ones are left out."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

# ns      0    100  200  300  400  500
# cpu 0   A A A      . A A A A            A runs 0..150 and 200..400
# kHz     ?   1000 . . 3000 . .  2000     from 100: 1000, from 300: 3000, from 450: 2000
SLICES = [Slice("game/A", 0, 0, 150), Slice("game/A", 0, 200, 200, ready=10, wait=40)]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, [Cpu(0, 0)], 500)
        for ts, khz in ((100, 1000), (300, 3000), (450, 2000)):
            trace.add("cpu_frequency", ts=ts, cpu=0, khz=khz)
        for ts, dur, state in ((150, 50, 1), (400, 50, 2), (450, 10, 1), (470, None, 2)):
            trace.add("cpu_idle", ts=ts, cpu=0, dur=dur, state=state)
        for seq, (ts, dur, kind, name) in enumerate([
            (10, 5, "softirq", "TIMER"), (160, 20, "softirq", "NET_RX"), (300, 5, "irq", "eth0"),
            (330, 15, "softirq", "TIMER"), (490, None, "softirq", "TIMER"),
        ]):  # fmt: skip
            trace.add("interrupt_slice", ts=ts, cpu=0, seq=seq, dur=dur, kind=kind, name=name)
        yield database


def test_time_in_each_idle_state(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT state, entries, idle_ns, idle_pct, dur_p50_ns, dur_max_ns FROM idle_state"
    ).fetchall()
    assert rows == [(1, 2, 60, 12.0, 10, 50), (2, 2, 50, 10.0, 50, 50)]


def test_idle_states_are_clipped_to_the_window(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT state, entries, idle_ns FROM idle_state(p_from_ns := 175, p_to_ns := 420)"
    ).fetchall()
    assert rows == [(1, 1, 25), (2, 1, 20)]


def test_idle_state_without_end_has_no_duration(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT state, entries, idle_ns, dur_max_ns FROM idle_state(p_from_ns := 465)"
    ).fetchall()
    assert rows == [(2, 1, None, None)]


def test_mean_frequency_covers_all_and_busy_time(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT cpu, changes, known_ns, avg_khz, busy_avg_khz, min_khz, max_khz FROM frequency"
    ).fetchall()
    # 200 at 1000, 150 at 3000, 50 at 2000; busy: 100..150 and 200..300 at 1000, 300..400 at 3000.
    mean = (200 * 1000 + 150 * 3000 + 50 * 2000) / 400
    busy = (50 * 1000 + 100 * 1000 + 100 * 3000) / 250
    assert rows == [(0, 3, 400, mean, busy, 1000, 3000)]


def test_mean_frequency_in_a_window(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT changes, known_ns, avg_khz, busy_avg_khz FROM frequency(p_from_ns := 250, "
        "p_to_ns := 350)"
    ).fetchall()
    assert rows == [(1, 100, 2000.0, 2000.0)]


def test_mean_frequency_of_a_thread(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT thread, known_ns, avg_khz FROM thread_frequency").fetchall()
    assert rows == [("A", 250, (150 * 1000 + 100 * 3000) / 250)]


def test_time_in_interrupts(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT kind, name, count, run_ns, run_pct, longest_ns FROM interrupt_time"
    ).fetchall()
    assert rows == [
        ("softirq", "NET_RX", 1, 20, 4.0, 20), ("softirq", "TIMER", 3, 20, 4.0, 15),
        ("irq", "eth0", 1, 5, 1.0, 5),
    ]  # fmt: skip


def test_interrupt_without_end_has_no_duration(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT name, count, run_ns, run_pct FROM interrupt_time(p_from_ns := 480)"
    ).fetchall()
    assert rows == [("TIMER", 1, None, None)]
