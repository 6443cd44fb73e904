"""Counters at switches, alone and with SMT sibling busy: CPI, and the cost of sharing."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import concluded, yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, 0, "P", 1), Cpu(1, 0, 1, "P", 1), Cpu(2, 2, 0, "E", 0)]
# A runs 80 intervals of 1 ms: 0..39 alone, 40..79 fully shared, except 39 half of it; one on E.
SLICES = [Slice("game/A", 0, n * MS, MS) for n in range(80)] + [Slice("game/A", 2, 90 * MS, MS)]


@pytest.fixture(scope="module")
def drawn() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 100 * MS)
        utid = trace.utid("game/A")
        trace.add("sharing_slice", utid=utid, cpu=0, ts=39 * MS + MS // 2, dur=MS // 2,
                  affinity_known=True)  # fmt: skip
        trace.add("sharing_slice", utid=utid, cpu=0, ts=40 * MS, dur=40 * MS, affinity_known=True)
        for n in range(80):
            # Alone 1 cycle per instruction, shared 2; the second half of each differs slightly.
            off = 10_000 if n % 2 else -10_000
            for counter, delta in (("cycles", 2_000_000 + off), ("instructions:u", 1_000_000)):
                value = delta // 2 if counter == "cycles" and n < 40 else delta
                trace.add(
                    "counter_delta", cpu=0, utid=utid, ts=n * MS, dur=MS, counter=counter,
                    core_type="P", delta=value,
                )  # fmt: skip
        for counter, delta in (("cycles", 1_500_000), ("instructions", 500_000), ("tsc", 1)):
            trace.add("counter_delta", cpu=2, utid=utid, ts=90 * MS, dur=MS, counter=counter,
                      core_type="E", delta=delta)  # fmt: skip
        yield database


def test_intervals_have_their_shared_part(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT ts, cpu, cycles, instructions, shared_ns FROM counter_interval "
        "WHERE ts IN (38000000, 39000000, 40000000, 79000000, 90000000)"
    ).fetchall()
    assert rows == [
        (38 * MS, 0, 995_000, 1_000_000, 0),
        (39 * MS, 0, 1_005_000, 1_000_000, MS // 2),
        (40 * MS, 0, 1_990_000, 1_000_000, MS),
        (79 * MS, 0, 2_010_000, 1_000_000, MS),
        (90 * MS, 2, 1_500_000, 500_000, 0),
    ]


def test_speed_by_core_type(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core_type, intervals, cycles, instructions, cpi, instructions_per_s, relative_to_p "
        "FROM thread_cpi"
    ).fetchall()
    assert rows == [
        ("E", 1, 1_500_000, 500_000, 3.0, 5e8, 0.5),
        ("P", 80, 120_000_000, 80_000_000, 1.5, 1e9, 1.0),
    ]


def test_tax_has_a_confidence_interval(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core_type, shared_ns, alone_intervals, shared_intervals, alone_cpi, shared_cpi, "
        "tax_ns, tax_low_ns, tax_high_ns, refused FROM smt_tax"
    ).fetchall()
    # Of the 39 alone, 20 are 5,000 cycles low and 19 as much high.
    alone = (39_000_000 - 5_000) / 39_000_000
    away = [995_000 - alone * 1_000_000] * 20 + [1_005_000 - alone * 1_000_000] * 19
    alone_variance = 39 / 38 * sum(d * d for d in away) / 39_000_000**2
    shared_variance = 40 / 39 * 40 * 10_000**2 / 40_000_000**2
    margin = 1.96 * alone / 2 * sqrt(alone_variance / alone**2 + shared_variance / 4)
    shared_ns = 40 * MS + MS // 2
    assert rows == [
        (
            "P", shared_ns, 39, 40, pytest.approx(alone, abs=1e-12), 2.0,
            pytest.approx(shared_ns * (1 - alone / 2), abs=1),
            pytest.approx(shared_ns * (1 - alone / 2 - margin), abs=1),
            pytest.approx(shared_ns * (1 - alone / 2 + margin), abs=1), None,
        )
    ]  # fmt: skip


def test_too_few_intervals_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT shared_ns, alone_intervals, tax_ns, tax_low_ns, refused FROM smt_tax(p_least := 40)"
    ).fetchall()
    assert rows == [
        (40 * MS + MS // 2, 39, None, None, "fewer than 40 intervals alone or shared")
    ]  # fmt: skip


def test_reports_the_finding(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "smt_tax")
    assert (found.severity, found.bound) == ("warning", "range")
    assert found.cost_ns == pytest.approx(20_252_596, abs=1)
    assert len(con.execute(found.evidence_sql).fetchall()) == 1
    assert len(con.execute(found.counter_evidence_sql or "").fetchall()) == 2
    con.execute("DELETE FROM counter_delta")
    assert concluded(con, "smt_tax").conclusion == "not_applicable"
