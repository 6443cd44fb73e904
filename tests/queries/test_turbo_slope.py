"""A frequency that falls by 100 MHz with every further active core."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, 0, "P", 1), Cpu(1, 1, 0, "E", 0)]
# CPU 0 runs A for 120 ms but the last 5; every 10 ms the number of active cores goes 1, 2, 3, and
# so does its frequency: 4.9, 4.8, 4.7 GHz. On the E core A never ran at a known frequency.
SLICES = [Slice("game/A", 0, 0, 115 * MS), Slice("game/A", 1, 116 * MS, MS)]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 120 * MS)
        for n in range(12):
            active = n % 3 + 1
            trace.add("cpu_frequency", ts=n * 10 * MS, cpu=0, khz=5_000_000 - active * 100_000)
            trace.add("concurrency_slice", ts=n * 10 * MS, dur=10 * MS, busy=active, unknown=0,
                      ready=0, p=1, e=active - 1, other=0, smt=0)  # fmt: skip
        yield database


def test_frequency_at_each_number_of_active_cores(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core_type, active_cores, intervals, busy_ns, avg_khz FROM frequency_active"
    ).fetchall()
    assert rows == [
        ("P", 1, 4, 40 * MS, 4_900_000.0),
        ("P", 2, 4, 40 * MS, 4_800_000.0),
        ("P", 3, 4, 35 * MS, 4_700_000.0),
    ]


def test_interval_has_frequency_and_active_cores(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT cpu, from_ns, dur, khz, busy_ns, active "
        "FROM frequency_interval(p_from_ns := 105000000)"
    ).fetchall()
    assert rows == [
        (0, 105 * MS, 5 * MS, 4_800_000, 5 * MS, 2.0),
        (0, 110 * MS, 10 * MS, 4_700_000, 5 * MS, 3.0),
    ]


def test_slope_is_computed(con: duckdb.DuckDBPyConnection) -> None:
    (row,) = con.execute(
        "SELECT core_type, intervals, busy_ns, khz_per_core, fit FROM turbo_slope"
    ).fetchall()
    assert row[:3] == ("P", 12, 115 * MS)
    assert row[3:] == (pytest.approx(-100_000, rel=1e-9), pytest.approx(1.0, rel=1e-9))
    # Nine intervals are too few.
    (row,) = con.execute(
        "SELECT khz_per_core, fit FROM turbo_slope(p_to_ns := 90000000)"
    ).fetchall()
    assert row == (None, None)


def test_thread_has_mean_frequency(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, core_type, known_ns, avg_khz FROM thread_frequency_type"
    ).fetchall()
    mean = (40 * 4_900_000 + 40 * 4_800_000 + 35 * 4_700_000) / 115
    assert rows == [("A", "P", 115 * MS, pytest.approx(mean, rel=1e-12))]


def test_reports_the_finding(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "turbo_slope")
    assert (found.severity, found.kind) == ("info", "frequency_falls")
    assert found.title == "Each active core costs 100 MHz (2.08 %)"
    assert found.detail == (
        "In drawn-1, each further active core lowers the frequency of P cores by 100 MHz (2.08 % "
        "of 4.8 GHz)."
    )
    assert len(con.execute(found.evidence_sql).fetchall()) == 3
