"""Fewer and more workers, and threads that get cores of their own, against the true frames."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import simulated

from schedlens.errors import ChangeError
from schedlens.replay import alterations, fidelity, prediction
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Present, Run, Script, Wait
from schedlens.simulate.thread import Thread

LENGTH_NS = 700 * MS
JOBS = 24


def pool(workers: int, *, smt: bool = False) -> Simulation:
    """A main thread that waits in each frame for 24 jobs of about 1 ms."""
    made = Simulation(machine(8, smt=smt), Rules(interrupts_per_s=0, wake_boost=0))
    process = made.process("game.exe")
    jobs = engine.Pool("jobs")

    def main(thread: Thread) -> Script:
        while True:
            yield Run(1.0 * MS)
            yield jobs.submit([made.random.uniform(0.8, 1.2) * MS for _ in range(JOBS)])
            yield Wait(jobs.done)
            yield Present(int(0.5 * MS))

    made.thread(process, "Main", main, priority=10)
    for number in range(workers):
        made.thread(process, f"Worker {number}", jobs.worker(), priority=9)
    made.run(LENGTH_NS)
    return made


def mean(made: Simulation) -> float:
    return fidelity.summary([frame.end - frame.start for frame in made.truth.frames]).mean


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    every = [("six", pool(6)), ("three", pool(3)), ("siblings", pool(4, smt=True))]
    with simulated.simulated_database(tmp_path_factory.mktemp("pools"), every) as con:
        yield con


def baseline(con: duckdb.DuckDBPyConnection, trace_id: int) -> prediction.Baseline:
    found = prediction.baseline(con, trace_id)
    assert isinstance(found, prediction.Baseline), found
    return found


@pytest.mark.parametrize(("trace_id", "before", "after"), [(1, 6, 3), (1, 6, 2), (2, 3, 6)])
def test_frames_with_another_number_of_workers(
    con: duckdb.DuckDBPyConnection, trace_id: int, before: int, after: int
) -> None:
    made = prediction.predict(
        baseline(con, trace_id), [alterations.parse(f"workers Worker *={after}")]
    )
    assert made.frames is not None, made.why
    found = made.frames["mean"]
    assert found is not None
    true = mean(pool(after))
    assert found.low <= true <= found.high
    assert abs(true / mean(pool(before)) - 1) > 0.3


def test_threads_that_are_no_pool_cannot_be_resized(con: duckdb.DuckDBPyConnection) -> None:
    made = prediction.predict(baseline(con, 1), [alterations.parse("workers Main=2")])
    assert made.why is not None
    assert made.why.startswith("Main and its mates do more than take jobs")
    with pytest.raises(ChangeError, match="'0' is not a value of workers"):
        alterations.parse("workers Worker *=0")


def test_thread_alone_keeps_others_off_its_siblings(con: duckdb.DuckDBPyConnection) -> None:
    base = baseline(con, 3)
    made = alterations.changed(base.recorded[0], [alterations.parse("alone Main")])
    cpus = base.recorded[0].machine.machine.cpus
    own = next(found for found in made.programs.values() if found.name == "Main")
    (cpu,) = own.affinity
    for program in made.programs.values():
        if program is not own:
            assert all(cpus[index].core != cpus[cpu].core for index in program.affinity)
    assert prediction.predict(base, [alterations.parse("alone Main")]).frames is not None
    with pytest.raises(ChangeError, match="no SMT siblings"):
        alterations.changed(baseline(con, 1).recorded[0], [alterations.parse("alone Main")])
