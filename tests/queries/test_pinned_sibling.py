"""Two threads bound to the siblings of core 0 while core 2 is idle part of the time."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import concluded, yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, 0), Cpu(1, 0, 1), Cpu(2, 2, 0), Cpu(3, 2, 1)]
# ms     0    10   20   30   40
# cpu 0  A A A A A A            0..30
# cpu 1       B B B B B B       10..40
# cpu 2  C C C                  0..15    core 2 idle 15..40
SLICES = [
    Slice("game/A", 0, 0, 30 * MS),
    Slice("game/B", 1, 10 * MS, 30 * MS),
    Slice("other/C", 2, 0, 15 * MS),
]


@pytest.fixture(scope="module")
def drawn() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 40 * MS)
        trace.add(
            "sibling_slice", core=0, ts=10 * MS, dur=20 * MS, cpu=0, utid=trace.utid("game/A"),
            other_cpu=1, other_utid=trace.utid("game/B"),
        )  # fmt: skip
        for core, begin, end, busy in ((0, 0, 40, 1), (2, 0, 15, 1), (2, 15, 40, 0)):
            trace.add("core_state", core=core, ts=begin * MS, dur=(end - begin) * MS, online=2,
                      unknown=0, busy=busy, threads=busy)  # fmt: skip
        trace.add("affinity", utid=trace.utid("game/A"), cpus=[0], source="snapshot")
        trace.add("affinity", utid=trace.utid("game/B"), cpus=[0, 1], source="snapshot")
        yield database


def test_counts_time_together_and_with_another_core_idle(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT core, thread, cpus, other_thread, other_cpus, together_ns, idle_ns "
        "FROM pinned_sibling"
    ).fetchall()
    assert rows == [(0, "A", [0], "B", [0, 1], 20 * MS, 15 * MS)]
    rows = con.execute(
        "SELECT together_ns, idle_ns "
        "FROM pinned_sibling(p_from_ns := 12000000, p_to_ns := 18000000)"
    ).fetchall()
    assert rows == [(6 * MS, 3 * MS)]


def test_thread_that_may_leave_the_core_is_not_bound(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE affinity SET cpus = [1, 2] WHERE len(cpus) = 2")
    assert con.execute("FROM pinned_sibling").fetchall() == []
    assert concluded(con, "pinned_sibling").conclusion == "clean"


@pytest.mark.parametrize("name", ["ksoftirqd/0", "irq/24-nvme0q1"])
def test_thread_that_the_kernel_binds_is_left_out(
    con: duckdb.DuckDBPyConnection, name: str
) -> None:
    # As `collect` reads it, and nobody chose the core.
    con.execute("UPDATE thread SET name = ? WHERE name = 'A'", [name])
    assert con.execute("FROM pinned_sibling").fetchall() == []


def test_counts_only_time_while_both_are_bound(con: duckdb.DuckDBPyConnection) -> None:
    # A may leave from 20 on; B is bound to CPU 1 from 14 on, which is the same core.
    con.execute(
        "INSERT INTO affinity SELECT 1, utid, CASE WHEN len(cpus) = 1 THEN 20 ELSE 14 END "
        "* 1_000_000, CASE WHEN len(cpus) = 1 THEN [0, 2] ELSE [1] END, 'event' FROM affinity"
    )
    rows = con.execute(
        "SELECT cpus, other_cpus, together_ns, idle_ns FROM pinned_sibling"
    ).fetchall()
    assert rows == [([0], [1], 10 * MS, 5 * MS)]


def test_reports_the_finding(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "pinned_sibling")
    assert (found.severity, found.cost_ns, found.cost_pct) == ("critical", 15 * MS, 37.5)
    assert len(con.execute(found.evidence_sql).fetchall()) == 1
    assert len(con.execute(found.counter_evidence_sql or "").fetchall()) == 2
