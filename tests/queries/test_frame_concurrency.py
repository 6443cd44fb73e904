"""Frames over busy CPUs: exact means per frame."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, 0, "P", 1), Cpu(1, 0, 1, "P", 1), Cpu(2, 2, 0, "E", 0)]
# ms       0    10   20   30   40
# cpu 0    A A A A A A            0..30 (game)
# cpu 1         X X               10..20 (other)
# cpu 2              B B          20..30 (game)
# frames   |  0..15  | 15..35  |
SLICES = [
    Slice("game/A", 0, 0, 30 * MS),
    Slice("other/X", 1, 10 * MS, 10 * MS),
    Slice("game/B", 2, 20 * MS, 10 * MS),
]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 40 * MS)
        for begin, end, busy, p, e, smt, ready in (
            (0, 10, 1, 1, 0, 0, 0), (10, 20, 2, 1, 0, 1, 3), (20, 30, 2, 1, 1, 0, 0),
            (30, 40, 0, 0, 0, 0, 0),
        ):  # fmt: skip
            trace.add("concurrency_slice", ts=begin * MS, dur=(end - begin) * MS, busy=busy,
                      unknown=0, ready=ready, p=p, e=e, other=0, smt=smt)  # fmt: skip
        for number, begin, end in ((0, 0, 15), (1, 15, 35)):
            trace.add("frame", frame=number, upid=1 << 32 | 1, utid=trace.utid("game/A"),
                      process="game", start_ns=begin * MS, dur_ns=(end - begin) * MS,
                      dialect="dxgi")  # fmt: skip
        yield database


def test_counts_busy_cpus_of_each_frame(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT frame, busy, own_busy, ready, p, e, smt, p_cores, cores, cpus "
        "FROM frame_concurrency"
    ).fetchall()
    assert rows == [
        (0, 20 / 15, 1.0, 1.0, 1.0, 0.0, 5 / 15, 1, 2, 3),
        (1, 30 / 20, 25 / 20, 15 / 20, 15 / 20, 10 / 20, 5 / 20, 1, 2, 3),
    ]


def test_reports_the_finding(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "frame_concurrency")
    assert (found.severity, found.kind) == ("info", "one_thread_at_a_time")
    assert "2 frames of game kept 1.4 of 3 logical CPUs busy" in found.detail
    assert "in 100 % of them its own threads used fewer than 2" in found.detail
    assert len(con.execute(found.evidence_sql).fetchall()) == 2
