"""Quotas of CPU time under the rules of Windows, against simulations with another quota."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest
import simulated
from planted import gain_truth
from planted.host import Quota

from schedlens.replay import advised, alterations, cpu_limits, prediction, programs, work
from schedlens.replay.cpu_limits import CpuLimit, Waits
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Script, Sleep
from schedlens.simulate.thread import Thread

PERIOD_MS, LENGTH_NS = 20, 600 * MS


def limited(cpus: float) -> tuple[Simulation, Quota]:
    """Three threads that compute with short pauses on four CPUs, and have a quota together."""
    made = Simulation(machine(4, smt=False), Rules(interrupts_per_s=0), seed=3)
    process = made.process("limited.exe")
    quota = Quota("/limited", process, int(cpus * PERIOD_MS * MS), PERIOD_MS * MS)

    def body(thread: Thread) -> Script:
        while True:
            yield from quota.run(thread, 0.5 * MS)
            yield Sleep(MS // 10)

    for number in range(3):
        made.thread(process, f"Limited {number}", body)
    made.run(LENGTH_NS)
    return made, quota


def throughput(made: Simulation) -> float:
    parts = gain_truth.work(made, "limited.exe")
    return sum(part[2] for part in parts) / LENGTH_NS


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    made, quota = limited(0.8)
    with simulated.simulated_database(tmp_path_factory.mktemp("limit"), [("limit", made)]) as con:
        con.execute(
            "INSERT INTO snapshot_cgroup BY NAME SELECT 1 AS trace_id, 0 AS ts, 'begin' AS edge, "
            "'/limited' AS cgroup, ? AS quota_ns, ? AS period_ns",
            [quota.quota_ns, quota.period_ns],
        )
        con.execute(
            "INSERT INTO thread_cgroup BY NAME SELECT 1 AS trace_id, 0 AS ts, utid, tid, "
            "'/limited/inner' AS cgroup, 'reading' AS source FROM thread WHERE NOT is_idle"
        )
        yield con


@pytest.mark.parametrize(("value", "cpus"), [("none", 3.0), ("1.2", 1.2), ("0.4", 0.4)])
def test_interval_contains_the_true_throughput_with_another_quota(
    con: duckdb.DuckDBPyConnection, value: str, cpus: float
) -> None:
    base = prediction.baseline(con, 1, process="limited.exe")
    assert isinstance(base, prediction.Baseline), base
    made = prediction.predict(base, [alterations.parse(f"quota /limited={value}")])
    found = made.figure("throughput")
    assert found is not None, made.why
    assert isinstance(base.figures, work.Work)
    before = throughput(limited(0.8)[0])
    # The overshoot of 0.5 ms pieces matters less with a larger quota.
    assert found.value / base.figures.throughput == pytest.approx(
        throughput(limited(cpus)[0]) / before, rel=0.08
    )
    assert not found.low <= base.figures.throughput <= found.high


def test_waits_for_the_next_period_are_no_steps_of_a_program(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recorded = programs.read(con, 1)
    (limit,) = recorded.limits
    assert (limit.begin_ns, limit.period_ns) == (0, PERIOD_MS * MS)
    # All three threads exceed the 16 ms of CPU time by less than a piece of 0.5 ms.
    assert limit.granted_ns is not None
    assert 16 * MS < limit.granted_ns < 17.5 * MS
    # 29 periods end within the recording, and one with it.
    assert recorded.waits["quota"] == 90
    assert max(op.value for found in recorded.programs.values() for op in found.ops) <= 0.5 * MS
    assert advised._quotas(recorded) == ["quota /limited=none"]


def test_quota_that_never_stopped_its_threads_remains_as_it_is_set() -> None:
    limit = CpuLimit("/any", 5e6, 10 * MS, frozenset({1}))
    # The ends of the waits have no time in common.
    waits = {1: Waits([(n * 7 * MS, n * 7 * MS + 3 * MS) for n in range(9)], [])}
    assert cpu_limits.stopped(limit, waits, 100 * MS) == (limit, set())
    assert limit.allowed_ns() == 5e6


def test_granted_time_grows_with_the_quota() -> None:
    limit = replace(CpuLimit("/any", 5e6, 10 * MS, frozenset({1})), granted_ns=6e6)
    assert limit.resized(1.0).allowed_ns() == 12e6
