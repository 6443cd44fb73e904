"""Two drawn recordings with the shares of a published comparison, by all three denominators."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, drawn_database
from judged import yielded

CPUS = [Cpu(0, 0, 0), Cpu(1, 0, 1)]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        # Of 10,000 ns: none, one, both busy.
        for trace_id, spells in ((1, (3320, 2906, 3774)), (2, (3555, 4041, 2404))):
            trace = DrawnTrace(database, [], CPUS, 10_000, trace_id=trace_id)
            ts = 0
            for busy, dur in enumerate(spells):
                trace.add("core_state", core=0, ts=ts, dur=dur, online=2, busy=busy,
                          threads=busy, unknown=0)  # fmt: skip
                ts += dur
        yield database


def test_third_less_by_each_denominator(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT first, second, measure, round(first_pct, 2), round(second_pct, 2), "
        "round(less_pct, 1) FROM smt_comparison"
    ).fetchall()
    pair = ("drawn-1", "drawn-2")
    assert rows == [
        (*pair, "none of trace time", 33.2, 35.55, -7.1),
        (*pair, "one of trace time", 29.06, 40.41, -39.1),
        (*pair, "both of trace time", 37.74, 24.04, 36.3),
        (*pair, "both of busy core time", 56.5, 37.3, 34.0),
        (*pair, "shared of thread time", 72.2, 54.33, 24.7),
        (*pair, "load", 52.27, 44.24, 15.4),
    ]


def test_base_parameter_reverses_the_comparison(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT first_trace_id, second_trace_id, less_pct "
        "FROM smt_comparison(p_base := 2) WHERE measure = 'both of trace time'"
    ).fetchall()
    assert rows == [(2, 1, 100 * (1 - 37.74 / 24.04))]
    assert con.execute("FROM smt_comparison(p_trace_id := 1)").fetchall() == []


def test_reports_the_finding(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "smt_comparison")
    assert (found.severity, found.trace_id) == ("info", 2)
    assert found.kind == "sharing_differs"
    assert found.title == "SMT siblings were busy together 34 % less than before"
    assert found.detail == (
        "SMT siblings were busy together for 36.3 % less of trace time, 34 % less of busy core "
        "time, 24.7 % less of thread time in drawn-2 than in drawn-1; the load was "
        "44.2 % instead of 52.3 %."
    )
    assert len(con.execute(found.evidence_sql).fetchall()) == 6


def test_recordings_of_different_things_are_not_compared(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE trace SET label = 'engine' WHERE trace_id = 2")
    try:
        assert con.execute("FROM recording_pair").fetchall() == []
        assert yielded(con, "smt_comparison") == []
        con.execute("UPDATE trace SET label = 'drawn-1-fixed' WHERE trace_id = 2")
        con.execute("UPDATE trace SET label = 'drawn-1' WHERE trace_id = 1")
        assert con.execute("SELECT second, basis FROM recording_pair").fetchall() == []
        con.execute("UPDATE trace SET label = 'drawn' WHERE trace_id = 1")
        con.execute("UPDATE trace SET label = 'Drawn-fixed.etl' WHERE trace_id = 2")
        assert con.execute("SELECT first, second, basis FROM recording_pair").fetchall() == [
            ("drawn", "Drawn-fixed.etl", "name")
        ]
    finally:
        con.execute("UPDATE trace SET label = 'drawn-' || trace_id")
