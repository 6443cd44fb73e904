"""Threads on E cores, and why: affinity, idle P cores, QoS class, priority, policy."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from experiment_session import section
from judged import plain, yielded

MS = 1_000_000
CPUS = [Cpu(0, 0, core_type="P", efficiency_class=1), Cpu(1, 1, core_type="E"),
        Cpu(2, 2, core_type="E")]  # fmt: skip

# ms        0   1   2   3   4   5   6   7   8   9   10
# cpu 0 P   C C C C C C C C C C C C C C C C . . . .    idle from 8 on
# cpu 1 E   A A A A|A A A A A A|A A A A A A A A A A    A may use only CPU 1 before 2,
#                  2           5                       and its QoS class is eco (5) from 5 on
# cpu 2 E   B B B B B B B B . . . . . . . . . . . .    B: medium (1), until it leaves at 4
SLICES = [
    Slice("game/A", 1, 0, 2 * MS, priority=9, end="preempted"),
    Slice("game/A", 1, 2 * MS, 3 * MS, wait=0, priority=9, end="preempted"),
    Slice("game/A", 1, 5 * MS, 5 * MS, wait=0, priority=10, end="trace_end"),
    Slice("game/B", 2, 0, 4 * MS, priority=8),
    Slice("game/C", 0, 0, 8 * MS, priority=13),
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(database, SLICES, CPUS, 10 * MS)
        for core, spells in ((0, ((0, 8, 1), (8, 10, 0))), (1, ((0, 10, 1),)),
                             (2, ((0, 4, 1), (4, 10, 0)))):  # fmt: skip
            for begin, end, busy in spells:
                trace.add("core_state", core=core, ts=begin * MS, dur=(end - begin) * MS,
                          online=1, busy=busy, threads=busy, unknown=0)  # fmt: skip
        a, b = trace.utid("game/A"), trace.utid("game/B")
        trace.add("affinity", utid=a, cpus=[1], source="rundown")
        trace.add("affinity", utid=a, valid_from_ns=2 * MS, cpus=[0, 1], source="event")
        trace.add("affinity", utid=b, cpus=[0, 1, 2], source="rundown")
        trace.add("qos_change", ts=5 * MS, cpu=1, utid=a, old_qos="0", new_qos="5")
        trace.add("qos_change", ts=4 * MS, cpu=2, utid=b, new_qos="1")
        yield database


CAUSES = (
    "SELECT thread, e_ns, mask_ns, p_idle_ns, no_p_idle_ns, low_qos_ns, qos_class, priority, "
    "policy FROM e_core_cause"
)


def test_class_applies_until_the_next_recorded_one(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT thread, qos_class, prefers_e, from_ns, dur_ns, run_ns FROM thread_qos "
        "ORDER BY thread, from_ns"
    ).fetchall()
    assert rows == [
        ("A", "high", False, 0, 5 * MS, 5 * MS),
        ("A", "eco", True, 5 * MS, 5 * MS, 5 * MS),
        # Its first record shows the class it had before; C never differs from the default.
        ("B", "medium", False, 0, 4 * MS, 4 * MS),
        ("B", "medium", False, 4 * MS, 6 * MS, 0),
        ("C", "high", False, 0, 10 * MS, 8 * MS),
    ]
    window = f"p_from_ns := {4 * MS}, p_to_ns := {6 * MS}, p_process := 'game'"
    rows = con.execute(
        f"SELECT thread, qos_class, from_ns, dur_ns, run_ns FROM thread_qos({window}) "
        "WHERE run_ns > 0 ORDER BY thread, from_ns"
    ).fetchall()
    assert rows == [
        ("A", "high", 4 * MS, MS, MS), ("A", "eco", 5 * MS, MS, MS),
        ("C", "high", 4 * MS, 2 * MS, 2 * MS),
    ]  # fmt: skip


def test_parts_of_the_time_on_e_cores_add_up(con: duckdb.DuckDBPyConnection) -> None:
    assert con.execute(CAUSES).fetchall() == [
        ("A", 10 * MS, 2 * MS, 2 * MS, 6 * MS, 5 * MS, "eco", 10, None),
        ("B", 4 * MS, 0, 0, 4 * MS, 0, "medium", 8, None),
    ]


def test_classes_that_are_not_recorded_are_unknown(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM qos_change")
    rows = con.execute("SELECT low_qos_ns, qos_class FROM e_core_cause").fetchall()
    assert rows == [(None, None)] * 2
    assert con.execute("FROM thread_qos").fetchall() == []


def test_policy_of_the_power_plan_is_named(con: duckdb.DuckDBPyConnection) -> None:
    for power, value in (("ac", "5"), ("dc", "4")):
        con.execute(
            "INSERT INTO machine_setting VALUES (1, ?, ?)",
            [f"power_plan.SCHEDPOLICY.{power}", value],
        )
    assert con.execute("SELECT DISTINCT policy FROM e_core_cause").fetchall() == [
        ("ac: automatic, dc: prefer efficient processors",)
    ]


def test_low_class_is_the_finding_and_names_all_causes(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "core_type_residency")
    assert (found.kind, found.severity, found.cost_ns) == ("low_qos", "critical", 10 * MS)
    assert plain(found.detail) == (
        "In drawn-1, A (1005) of game ran 10 ms (100 % of its running time) on E cores: no P core "
        "was idle for 6 ms, a P core was idle for 2 ms, its affinity allowed no P core for 2 ms "
        "(QoS eco, priority 10)."
    )
    assert "high QoS" in found.advice
    assert con.execute(found.evidence_sql).fetchall() == [
        (10 * MS, 2 * MS, 2 * MS, 6 * MS, 5 * MS, "eco", 10, None)
    ]
    con.execute("UPDATE qos_change SET new_qos = '0' WHERE new_qos = '5'")
    (found,) = yielded(con, "core_type_residency")
    assert (found.kind, found.advice.split(",")[0]) == (
        "on_e_cores",
        "Raise this thread's priority",
    )


def test_figure_draws_the_spells_of_each_class(con: duckdb.DuckDBPyConnection) -> None:
    figures = section(con, "core_type_residency")["figures"]
    (figure,) = [figure for figure in figures if figure["name"] == "qos"]
    drawn = {
        trace["name"]: (trace["y"], trace["base"], trace["x"]) for trace in figure["plot"]["data"]
    }
    # C never leaves the default class, so it is not drawn.
    assert drawn == {
        "eco": (["A (1005)"], [5], [5]),
        "high": (["A (1005)"], [0], [5]),
        "medium": (["B (1006)"] * 2, [0, 4], [4, 6]),
    }
