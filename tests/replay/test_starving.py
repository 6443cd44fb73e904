"""Threads that were woken and hardly ran."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import simulated
from planted import gain_truth

from schedlens.replay import alterations, prediction, programs, work
from schedlens.replay.ops import Op
from schedlens.replay.pacing import continued, is_loop
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation

LENGTH_NS = 400 * MS


def crowded(affinity: list[int] | None) -> Simulation:
    """Four threads on one CPU: two, whose priority a wakeup raises, leave little time to others."""
    made = Simulation(machine(4, smt=False), Rules(interrupts_per_s=0, wake_boost=1), seed=3)
    process = made.process("level.exe")
    for number in range(4):
        made.thread(
            process, f"Below {number}", engine.busy(2.0, pause_ms=0.1), affinity=affinity,
            start_ns=number * MS // 10,
        )  # fmt: skip
    made.run(LENGTH_NS)
    return made


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("starving")
    with simulated.simulated_database(folder, [("one CPU", crowded([0]))]) as con:
        yield con


def test_thread_that_never_ran_is_ready_and_may_do_what_its_mates_do(
    con: duckdb.DuckDBPyConnection,
) -> None:
    watched = work.watched(con, 1, "level.exe")
    assert watched is not None
    recorded = programs.read(con, 1, watched=watched)
    starving = [recorded.programs[utid] for utid in sorted(recorded.starving)]
    # The third one ran for a quantum before the first two waited.
    assert [found.name for found in starving] == ["Below 3"]
    assert all(found.running_ns == {} and found.unknown_ns == 0 for found in starving)
    assert all(found.ready_ns > 399 * MS for found in starving)
    assert all(is_loop(found.ops) for found in starving)
    assert recorded.watched is not None
    assert recorded.watched.utids == watched.utids | recorded.starving
    low = programs.read(con, 1, end="low", watched=watched)
    assert low.starving.isdisjoint(low.programs)


def test_interval_covers_that_starving_threads_do_nothing(con: duckdb.DuckDBPyConnection) -> None:
    base = prediction.baseline(con, 1, process="level.exe")
    assert isinstance(base, prediction.Baseline), base
    made = prediction.predict(base, [alterations.parse("affinity *=any")])
    found = made.figure("throughput")
    assert found is not None, made.why
    assert isinstance(base.figures, work.Work)
    true = [
        sum(part[2] for part in gain_truth.work(crowded(cpus), "level.exe"))
        for cpus in ([0], None)
    ]  # fmt: skip
    ratio = true[1] / true[0]
    assert ratio > 3.5
    assert found.value / base.figures.throughput == pytest.approx(ratio, rel=0.03)
    # The three threads that ran do three times of what they did.
    assert found.low < 3 * base.figures.throughput < found.value


def test_times_without_records_are_not_repeated() -> None:
    ops = [Op("run", 5.0), Op("sleep", 15.0), Op("gap", 60.0)] * 3
    assert is_loop(ops)
    made = continued(ops, 240, 1, 100)
    assert made[:9] == ops
    assert made[9:] == 5 * 3 * [Op("run", 5.0), Op("sleep", 15.0)]
