"""Isolated CPUs: what interrupted them, and the kernel command line against it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from experiment_session import section
from judged import concluded, plain, yielded

from schedlens.ask.findings import clean

MS = 1_000_000
US = 1_000

# Of 1000 ms, CPUs 2 and 3 are isolated. CPU 2 has a tick every 4 ms, each with a softirq; CPU 0 and
# CPU 3 have one each.
NOISE = [
    (2, "irq", "local_timer", 250, 2 * US),
    (2, "softirq", "TIMER", 40, 3 * US),
    (2, "softirq", "RCU", 20, 1 * US),
    (2, "irq", "reschedule", 3, 1 * US),
    (2, "irq", "nvme0q3", 2, 5 * US),
    (3, "irq", "local_timer", 1, 2 * US),
    (0, "irq", "local_timer", 250, 2 * US),
]


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        trace = DrawnTrace(
            database, [Slice("app/A", 2, 0, 1000 * MS, end="trace_end")],
            [Cpu(cpu, cpu) for cpu in range(4)], 1000 * MS,
        )  # fmt: skip
        trace.add("machine_setting", key="isolated_cpus", value="2-3")
        for cpu, kind, name, count, dur in NOISE:
            database.execute(
                "INSERT INTO interrupt_slice SELECT 1, n * 3000000, ?, n, ?, ?, ? "
                "FROM range(1, ? + 1) AS each(n)",
                [cpu, dur, kind, name, count],
            )
        yield database


def test_isolated_cpus_are_read_from_the_list(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("UPDATE machine_setting SET value = '1, 3-4'")
    assert con.execute("FROM isolated_cpu").fetchall() == [(1, 1), (1, 3), (1, 4)]
    con.execute("UPDATE machine_setting SET value = ''")
    assert con.execute("FROM isolated_cpu").fetchall() == []


def test_each_cause_has_its_rate_and_parameter(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute("SELECT * EXCLUDE (trace_id) FROM isolated_cpu_noise").fetchall()
    assert rows == [
        (2, "tick", "local_timer", 250, 250, 500 * US, 2 * US, "nohz_full"),
        (2, "timer", "TIMER", 40, 40, 120 * US, 3 * US, "nohz_full"),
        (2, "rcu", "RCU", 20, 20, 20 * US, 1 * US, "rcu_nocbs"),
        (2, "ipi", "reschedule", 3, 3, 3 * US, 1 * US, None),
        (2, "device", "nvme0q3", 2, 2, 10 * US, 5 * US, "irqaffinity"),
        (3, "tick", "local_timer", 1, 1, 2 * US, 2 * US, "nohz_full"),
    ]


def test_finding_has_the_kernel_command_line(con: duckdb.DuckDBPyConnection) -> None:
    (found,) = yielded(con, "isolated_cpu_noise")
    assert (found.kind, found.severity, found.cpu, found.cost_ns) == (
        "interrupted", "warning", 2, 653 * US,
    )  # fmt: skip
    assert found.title == "Isolated CPU 2 was interrupted 315 times per second"
    assert plain(found.detail) == (
        "In drawn-1, the kernel interrupted isolated CPU 2 for 653 us: 250 ticks, 40 timer runs, "
        "20 RCU runs, 3 interrupts from other CPUs, 2 device interrupts."
    )
    assert found.advice.startswith(
        "Add to the kernel command line: nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1. "
        "Interrupts from other CPUs have no parameter:"
    )
    assert len(con.execute(found.evidence_sql).fetchall()) == 6


def test_parameter_that_is_set_is_not_advised_again(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("INSERT INTO machine_setting VALUES (1, 'nohz_full', '2-3')")
    (found,) = yielded(con, "isolated_cpu_noise")
    assert "command line: rcu_nocbs=2-3 irqaffinity=0-1. Run one thread there" in found.advice


def test_quiet_or_no_isolated_cpus_are_no_finding(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM interrupt_slice WHERE cpu = 2")
    assert yielded(con, "isolated_cpu_noise") == []
    outcome = concluded(con, "isolated_cpu_noise")
    assert outcome == clean("No isolated CPU was interrupted 10 times per second.")
    con.execute("DELETE FROM machine_setting")
    assert concluded(con, "isolated_cpu_noise").conclusion == "not_applicable"


def test_section_draws_the_causes(con: duckdb.DuckDBPyConnection) -> None:
    (figure,) = section(con, "isolated_cpu_noise")["figures"]
    drawn = {trace["name"]: (trace["y"], trace["x"]) for trace in figure["plot"]["data"]}
    assert drawn["tick"] == (["CPU 2", "CPU 3"], [250, 1])
    assert drawn["device"] == (["CPU 2", "CPU 3"], [2, None])
