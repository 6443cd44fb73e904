"""Parked CPUs: how many over time, and the frames and slices meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, add_many, drawn_database
from judged import concluded, yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, 0, "P", 1), Cpu(1, 1, 0, "E", 0), Cpu(2, 2, 0, "E", 0)]
# ms      0    100   200
# cpu 1   . . . P P P P     parked from 100 on (idle), soft-parked 180..190
# cpu 2   P P P P P P .     parked by the rundown, unparked at 190
# Frames of 10 ms up to 100, then of 18 ms; the last is cut at the end.
SLICES = [
    Slice("game/A", 0, 0, 20 * MS),
    Slice("game/A", 0, 120 * MS, 30 * MS, ready=5 * MS),
    Slice("game/A", 0, 160 * MS, 100_000, ready=MS),
]


@pytest.fixture(scope="module")
def drawn() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 200 * MS)
        database.execute("UPDATE trace SET source = 'etw'")
        add_many(
            database,
            "cpu_parking",
            "trace_id, ts, cpu, parked, soft_parked, reason",
            [
                (1, None, 0, False, False, None),
                (1, None, 1, False, False, None),
                (1, 100 * MS, 1, True, False, "idle"),
                (1, 180 * MS, 1, False, True, "idle"),
                (1, 190 * MS, 1, True, False, "idle"),
                (1, None, 2, True, False, "rundown"),
                (1, 190 * MS, 2, False, False, "busy"),
            ],
        )
        frames = [(n * 10 * MS, 10 * MS) for n in range(10)]
        frames += [(100 * MS + n * 18 * MS, 18 * MS) for n in range(5)]
        for number, (start, dur) in enumerate(frames):
            trace.add(
                "frame", frame=number, upid=1 << 32 | 1, utid=trace.utid("game/A"),
                process="game", start_ns=start, dur_ns=dur, dialect="dxgi",
            )  # fmt: skip
        trace.add("machine_setting", key="power_plan.CPMINCORES", value="10")
        trace.add("machine_setting", key="host", value="x")
        yield database


def test_time_parked_by_cpu(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT cpu, core_type, parked_ns, soft_parked_ns, unparked_ns, unknown_ns, parked_pct, "
        "changes, reasons FROM parking"
    ).fetchall()
    assert rows == [
        (0, "P", 0, 0, 200 * MS, 0, 0.0, 0, None),
        (1, "E", 90 * MS, 10 * MS, 100 * MS, 0, 50.0, 3, ["idle"]),
        (2, "E", 190 * MS, 0, 10 * MS, 0, 95.0, 1, ["rundown"]),
    ]


def test_window_clips_times(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT cpu, parked_ns, soft_parked_ns, changes "
        "FROM parking(p_from_ns := 150000000, p_to_ns := 185000000)"
    ).fetchall()
    assert rows == [(0, 0, 0, 0), (1, 30 * MS, 5 * MS, 1), (2, 35 * MS, 0, 0)]


def test_counts_parked_cpus_over_time(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT ts, dur, parked, soft_parked, unknown FROM parked_count").fetchall()
    assert rows == [
        (0, 100 * MS, 1, 0, 0),
        (100 * MS, 80 * MS, 2, 0, 0),
        (180 * MS, 10 * MS, 1, 1, 0),
        (190 * MS, 10 * MS, 1, 0, 0),
    ]


def test_cpu_is_unknown_before_its_first_record(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM cpu_parking WHERE cpu = 1 AND ts IS NULL")
    rows = con.execute("SELECT ts, dur, state FROM parking_spell WHERE cpu = 1").fetchall()
    assert rows[:2] == [(0, 100 * MS, "unknown"), (100 * MS, 80 * MS, "parked")]
    # Unknown values of a frame are not reported.
    assert con.execute("SELECT parked, frames FROM frame_parking").fetchall() == [(1, 1), (2, 4)]


def test_frames_group_by_parked_cpus(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT process, parked, frames, mean_ns, longest_ns, total_ns FROM frame_parking"
    ).fetchall()
    # The fifth frame from 100 on is 172..190: 8 ms of 2 and 10 ms of 1 are 26 / 18, to the
    # nearest 1.
    assert rows == [
        ("game", 1, 11, round(118 / 11 * MS), 18 * MS, 118 * MS),
        ("game", 2, 4, 18 * MS, 18 * MS, 72 * MS),
    ]


def test_long_slices_group_by_parked_cpus(con: duckdb.DuckDBPyConnection) -> None:
    ask = (
        "SELECT thread, parked, slices, run_ns, longest_ns, ready_ns, ready_max_ns "
        "FROM thread_parking({})"
    )
    assert con.execute(ask.format("")).fetchall() == [
        ("A", 1, 1, 20 * MS, 20 * MS, 0, 0),
        ("A", 2, 1, 30 * MS, 30 * MS, 5 * MS, 5 * MS),
    ]
    assert con.execute(ask.format("p_thread := 'B'")).fetchall() == []
    assert con.execute(ask.format("p_long_ns := 0, p_from_ns := 100000000")).fetchall() == [
        ("A", 2, 2, 30_100_000, 30 * MS, 6 * MS, 5 * MS)
    ]


def test_parking_lists_the_power_plan(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT key, value FROM power_setting").fetchall()
    assert rows == [("power_plan.CPMINCORES", "10")]


def test_longer_frames_with_more_parked_cpus_are_found(con: duckdb.DuckDBPyConnection) -> None:
    # Only four frames have two parked.
    assert concluded(con, "parking").conclusion == "clean"
    con.execute("UPDATE cpu_parking SET parked = true WHERE ts = 180000000")
    (found,) = yielded(con, "parking")
    assert (found.severity, found.cost_ns, found.cost_pct) == ("critical", 40 * MS, 20.0)
    assert found.kind == "longer_frames"
    assert (
        "18 ms on average while 2 or more logical CPUs are parked, and 10 ms with" in found.detail
    )
    assert len(con.execute(found.evidence_sql).fetchall()) == 2
    assert len(con.execute(found.counter_evidence_sql or "").fetchall()) == 2


def test_without_parking_records_nothing_is_reported(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM cpu_parking")
    assert concluded(con, "parking").conclusion == "not_recorded"
