"""Slices and priorities: who ran instead of whom, and who was boosted."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import concluded, yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, 0, "P", 1), Cpu(1, 1, 0, "P", 1), Cpu(2, 2, 0, "E", 0)]

# ms        0    10   20   30   40   50   60   70   80   90   100
# cpu 0 P   low(9)...................... .  .  .  .  .  .           0..60
# cpu 1 P   mid(10)........... .  .  .  .  .  .  .  .  .            0..40
# cpu 2 E        high(12)...............     high(13) 70..80        10..50 and 70..80
# late(11) is ready 20..40 (no CPU), runs on cpu 1 40..50, then ready again from 50 on, unseen.
SLICES = [
    Slice("back/low", 0, 0, 60 * MS, priority=9),
    Slice("game/mid", 1, 0, 40 * MS, priority=10),
    Slice("game/high", 2, 10 * MS, 40 * MS, priority=12),
    Slice("game/high", 2, 70 * MS, 10 * MS, priority=13),
    Slice("game/late", 1, 40 * MS, 10 * MS, ready=20 * MS, priority=11, end="preempted"),
]
ALL = [0, 1, 2]


@pytest.fixture(scope="module")
def drawn() -> Iterator[tuple[duckdb.DuckDBPyConnection, DrawnTrace]]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 100 * MS)
        database.execute("UPDATE trace SET source = 'etw'")
        for name in ("back/low", "game/mid", "game/high", "game/late"):
            trace.add("affinity", utid=trace.utid(name), cpus=ALL, source="rundown")
        yield database, trace


@pytest.fixture
def con(
    drawn: tuple[duckdb.DuckDBPyConnection, DrawnTrace],
) -> Iterator[duckdb.DuckDBPyConnection]:
    drawn[0].execute("BEGIN")
    yield drawn[0]
    drawn[0].execute("ROLLBACK")


COLUMNS = "thread, priority, cpu, run_ns, higher_ready_ns, higher_on_e_ns"


def test_lists_lower_priority_threads_that_ran_instead(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(f"SELECT {COLUMNS} FROM background_running").fetchall()
    # high is on the E core 10..50, late ready 20..40.
    assert rows == [
        ("low", 9, 0, 60 * MS, 20 * MS, 40 * MS),
        ("mid", 10, 1, 40 * MS, 20 * MS, 30 * MS),
        ("late", 11, 1, 10 * MS, 0, 10 * MS),
        ("high", 12, 2, 40 * MS, 0, None),
        ("high", 13, 2, 10 * MS, 0, None),
    ]


def test_window_clips_times(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        f"SELECT {COLUMNS} FROM background_running(p_from_ns := 30000000, p_to_ns := 45000000, "
        "p_process := 'back')"
    ).fetchall()
    assert rows == [("low", 9, 0, 15 * MS, 10 * MS, 15 * MS)]


def test_only_threads_allowed_on_the_cpu_count(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute(
        "UPDATE affinity SET cpus = CASE thread.name WHEN 'high' THEN [1, 2] ELSE [2] END "
        "FROM thread WHERE thread.utid = affinity.utid AND thread.name IN ('high', 'late')"
    )
    rows = con.execute(f"SELECT {COLUMNS} FROM background_running").fetchall()
    assert rows[:3] == [
        ("mid", 10, 1, 40 * MS, 0, 30 * MS),
        ("late", 11, 1, 10 * MS, 0, 10 * MS),
        ("low", 9, 0, 60 * MS, 0, 0),
    ]


def test_affinity_at_each_moment_counts(
    drawn: tuple[duckdb.DuckDBPyConnection, DrawnTrace],
) -> None:
    con, trace = drawn
    con.execute("BEGIN")
    # From 30 on high may use only CPU 2; before that it was blocked by both, 10..30.
    trace.add("affinity", utid=trace.utid("game/high"), valid_from_ns=30 * MS, cpus=[2],
              source="event")  # fmt: skip
    rows = con.execute(
        f"SELECT {COLUMNS} FROM background_running WHERE cpu < 2 ORDER BY priority"
    ).fetchall()
    con.execute("ROLLBACK")
    assert rows == [
        ("low", 9, 0, 60 * MS, 20 * MS, 20 * MS),
        ("mid", 10, 1, 40 * MS, 20 * MS, 20 * MS),
        ("late", 11, 1, 10 * MS, 0, 0),
    ]


def test_priority_at_each_moment_counts(
    drawn: tuple[duckdb.DuckDBPyConnection, DrawnTrace],
) -> None:
    con, trace = drawn
    con.execute("BEGIN")
    # late is raised from 8 to 11 in the middle of its ready time, low from 9 to 14 while it runs.
    for name, ts, old, new in (("game/late", 30, 8, 11), ("back/low", 45, 9, 14)):
        trace.add("priority_change", ts=ts * MS, cpu=0, utid=trace.utid(name), old_priority=old,
                  new_priority=new, kind="dynamic")  # fmt: skip
    rows = con.execute(
        f"SELECT {COLUMNS} FROM background_running WHERE cpu < 2 ORDER BY priority"
    ).fetchall()
    con.execute("ROLLBACK")
    # high (12) is on the E core 10..50.
    assert rows == [
        ("low", 9, 0, 45 * MS, 10 * MS, 35 * MS),
        ("mid", 10, 1, 40 * MS, 10 * MS, 30 * MS),
        ("late", 11, 1, 10 * MS, 0, 10 * MS),
        ("low", 14, 0, 15 * MS, 0, 0),
    ]


def test_linux_nice_levels_are_not_strict_priorities(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "UPDATE trace SET source = 'perf'; UPDATE sched_slice SET priority = 110 + priority"
    )
    rows = con.execute(
        "SELECT max(higher_ready_ns), max(higher_on_e_ns) FROM background_running"
    ).fetchall()
    assert rows == [(0, 0)]
    assert concluded(con, "priority_order").conclusion == "clean"


def test_lower_linux_number_is_higher_priority(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("UPDATE trace SET source = 'perf'")
    rows = con.execute(
        "SELECT thread, higher_ready_ns, higher_on_e_ns FROM background_running "
        "WHERE higher_ready_ns > 0 OR higher_on_e_ns > 0"
    ).fetchall()
    assert rows == [("high", 20 * MS, None)]
    con.execute("UPDATE sched_slice SET priority = 60 - priority")
    rows = con.execute(
        "SELECT thread, higher_ready_ns, higher_on_e_ns FROM background_running LIMIT 2"
    ).fetchall()
    assert rows == [("low", 20 * MS, 40 * MS), ("mid", 20 * MS, 30 * MS)]


def test_running_and_ready_by_priority(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT priority, threads, run_ns, ready_ns, ready_pct, ready_max_ns FROM priority_share"
    ).fetchall()
    assert rows == [
        (9, 1, 60 * MS, 0, 0.0, 0),
        (10, 1, 40 * MS, 0, 0.0, 0),
        (12, 1, 40 * MS, 0, 0.0, 0),
        (11, 1, 10 * MS, 20 * MS, 100 * 20 / 30, 20 * MS),
        (13, 1, 10 * MS, 0, 0.0, 0),
    ]


def test_lists_priority_boosts(drawn: tuple[duckdb.DuckDBPyConnection, DrawnTrace]) -> None:
    con, trace = drawn
    con.execute("BEGIN")
    con.execute("UPDATE thread SET base_priority = 11 WHERE name = 'high'")
    for ts, old, new, kind in (
        (9, 11, 12, "dynamic"), (60, 11, 12, "base"), (69, 12, 13, "dynamic"),
        (80, 13, 12, "dynamic"),
    ):  # fmt: skip
        trace.add(
            "priority_change", ts=ts * MS, cpu=0, utid=trace.utid("game/high"), old_priority=old,
            new_priority=new, kind=kind,
        )  # fmt: skip
    rows = con.execute(
        "SELECT thread, base_priority, run_ns, boosted_ns, boosted_slices, switches_in, highest, "
        "raised, lowered FROM priority_boost"
    ).fetchall()
    con.execute("ROLLBACK")
    assert rows == [("high", 11, 50 * MS, 50 * MS, 2, 2, 1, 2, 1)]


def test_reports_findings(con: duckdb.DuckDBPyConnection) -> None:
    found = yielded(con, "priority_order")
    ready, place = sorted(found, key=lambda f: f.cost_ns or 0)
    assert (ready.severity, ready.cost_ns) == ("critical", 40 * MS)
    assert (place.severity, place.cost_ns, place.cpu) == ("warning", 80 * MS, 0)
    assert (ready.kind, place.kind) == ("higher_ready", "higher_on_e_cores")
    assert "low (" in place.detail
    for one in (ready, place):
        assert con.execute(one.evidence_sql).fetchall()
        con.execute(one.counter_evidence_sql or "")


def test_reports_priority_that_is_ready_half_the_time(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE sched_slice SET priority = 12, ready_ns = ts WHERE cpu = 2 AND ts > 0")
    found = yielded(con, "priority_order")
    (starved,) = [f for f in found if f.kind == "starved"]
    assert starved.cost_ns == 80 * MS
    assert starved.title == "Priority 12 was ready for 61.5 % of its runnable time"
    assert starved.detail.endswith("waited 80 ms for a CPU, 70 ms at most.")
    assert len(con.execute(starved.evidence_sql).fetchall()) == 4
    assert len(con.execute(starved.counter_evidence_sql or "").fetchall()) == 4
