"""Threads that take turns at the ends of their quanta, without frames: do they spin meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import simulated

from schedlens.replay import alterations, obstacles, prediction
from schedlens.replay.prediction import Baseline, Refused
from schedlens.replay.work import Work
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Body, Gate, Run, Script, Signal, Sleep, Spin
from schedlens.simulate.thread import Thread

LENGTH_NS = 1000 * MS


def simulation() -> Simulation:
    """Quanta of 4 ms."""
    rules = Rules(clock_tick_ns=MS, quantum_ticks=4, interrupts_per_s=0, wake_boost=0)
    return Simulation(machine(2, smt=False), rules, seed=3)


def working() -> Simulation:
    """Two threads on one CPU compute for 12 ms and pause; each is often alone."""
    made = simulation()
    process = made.process("turns.exe")
    for number in range(2):
        body = engine.busy(12.0, pause_ms=11.0 + 4.0 * number)
        made.thread(process, f"Turn {number}", body, affinity=[0])
    made.run(LENGTH_NS)
    return made


def ring(work_ms: float) -> tuple[Simulation, int]:
    """Two threads on one CPU that only spin for each other, and how often they did."""
    made = simulation()
    process = made.process("turns.exe")
    gates = [Gate("even", 1), Gate("odd")]
    hops = 0

    def body(number: int) -> Body:
        def script(thread: Thread) -> Script:
            nonlocal hops
            while True:
                yield Spin(gates[number])
                yield Run(work_ms * MS)
                yield Signal(gates[1 - number])
                hops += 1

        return script

    for number in range(2):
        made.thread(process, f"Turn {number}", body(number), affinity=[0])
    made.run(LENGTH_NS)
    return made, hops


def endless() -> Simulation:
    """Two threads on one CPU that only compute."""
    made = simulation()
    process = made.process("turns.exe")
    for number in range(2):
        made.thread(process, f"Turn {number}", engine.busy(1.0), affinity=[0])
    made.run(LENGTH_NS)
    return made


def spinning() -> Simulation:
    """Two threads on one CPU wait for each other ten times by spinning, then for a while alone."""
    made = simulation()
    process = made.process("turns.exe")
    gates = [Gate("even", 1), Gate("odd")]

    def body(number: int) -> Body:
        def script(thread: Thread) -> Script:
            while True:
                for _ in range(10):
                    yield Spin(gates[number])
                    yield Run(0.3 * MS)
                    yield Signal(gates[1 - number])
                for _ in range(3):
                    yield Sleep(MS)
                    yield Run(0.3 * MS)

        return script

    for number in range(2):
        made.thread(process, f"Turn {number}", body(number), affinity=[0])
    made.run(LENGTH_NS)
    return made


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    every = [("working", working()), ("spinning", spinning()), ("ring", ring(1.0)[0])]
    every.append(("endless", endless()))
    with simulated.simulated_database(tmp_path_factory.mktemp("turns"), every) as con:
        yield con


def baseline(con: duckdb.DuckDBPyConnection, trace_id: int, *texts: str) -> Baseline | Refused:
    turns = con.execute(
        "SELECT sum(dur) FROM quantum_chain WHERE trace_id = ?", [trace_id]
    ).fetchone()  # fmt: skip
    assert turns is not None
    assert turns[0] > 5 * obstacles.SPIN_LIMIT * LENGTH_NS
    wanted = [alterations.parse(text) for text in texts]
    return prediction.baseline(con, trace_id, process="turns.exe", wanted=wanted)


def test_threads_that_work_as_long_alone_are_predicted(con: duckdb.DuckDBPyConnection) -> None:
    base = baseline(con, 1)
    assert isinstance(base, Baseline), base
    made = prediction.predict(base, [alterations.parse("affinity *=any")])
    # 12 of 23 ms and 12 of 27 ms on a CPU of their own.
    true = 12 / 23 + 12 / 27
    found = made.figure("throughput")
    assert found is not None, made.why
    assert found.low <= true <= found.high
    assert found.value == pytest.approx(true, rel=0.05)


def test_threads_that_run_longer_in_turns_are_not(con: duckdb.DuckDBPyConnection) -> None:
    found = baseline(con, 2)
    assert isinstance(found, Refused)
    assert found.why.startswith("Turn 0 and Turn 1 hand a CPU to each other only when")


@pytest.mark.parametrize(
    # Work of 1 ms a hop leaves 3 ms of each quantum to spinning; 0.7 ms leave more.
    ("trace_id", "true"), [(3, ring(0.7)[1] / ring(1.0)[1]), (4, 1 / 0.7)]
)  # fmt: skip
def test_less_work_where_threads_may_spin_gains_between_nothing_and_all(
    con: duckdb.DuckDBPyConnection, trace_id: int, true: float
) -> None:
    base = baseline(con, trace_id, "work Turn*=-30%")
    assert isinstance(base, Baseline), base
    made = prediction.predict(base, [alterations.parse("work Turn*=-30%")])
    found = made.figure("throughput")
    assert found is not None
    assert isinstance(base.figures, Work)
    assert found.low <= true * base.figures.throughput <= found.high
    assert found.low < base.figures.throughput
    assert made.doubt is not None
    assert made.doubt.startswith("Turn 0 and Turn 1 hand a CPU to each other")
    # Any other change may do anything.
    other = prediction.predict(base, [alterations.parse("affinity Turn*=any")])
    assert other.why == made.doubt
    assert isinstance(baseline(con, trace_id), Refused)
    assert isinstance(baseline(con, trace_id, "work Turn*=-30%", "remove x"), Refused)


def test_ring_of_spinning_threads_gains_nothing_from_less_work() -> None:
    assert ring(0.7)[1] == ring(1.0)[1]
