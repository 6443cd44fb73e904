"""Threads that spin until another one acts, and what sleeping instead would change."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import simulated

from schedlens.replay import alterations, fidelity, prediction, programs, spins
from schedlens.replay.ops import Program
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Gate, Present, Run, Script, Signal, Spin, Wait
from schedlens.simulate.thread import Thread

LENGTH_NS = 1500 * MS
# Options of a program: what the worker computes in ms, whether the rest is only one core.
SHARED, ONE_CPU = {"smt": True}, {"smt": False}


def played(*, smt: bool, spins: bool = True, worker: float = 1.0, computes: bool = False,
           longer: float = 1.0) -> Simulation:  # fmt: skip
    """In each frame a main thread asks a worker for 5 to 9 ms of work, and spins until it is done
    or, if it `computes`, computes about as long as it. They share a core, or a CPU."""
    made = Simulation(
        machine(1, smt=smt),
        Rules(interrupts_per_s=0, wake_boost=0, clock_tick_ns=MS, quantum_ticks=6),
        seed=5,
    )
    process = made.process("game.exe")
    asked, done = Gate("asked"), Gate("done")
    chance = made.random
    # What both do in a frame: the same without and with a change.
    parts = [chance.uniform(5.0, 9.0) for _ in range(400)]
    rests = [chance.uniform(0.9, 1.1) for _ in range(400)]

    def main(thread: Thread) -> Script:
        for part, rest in zip(parts, rests, strict=True):
            yield Run(MS)
            yield Signal(asked)
            if computes:
                yield Run(longer * part * MS)
            yield Spin(done) if spins and not computes else Wait(done)
            yield Run(rest * MS)
            yield Present(int(0.2 * MS))

    def body(thread: Thread) -> Script:
        for part in parts:
            yield Wait(asked)
            yield Run(worker * part * MS)
            yield Signal(done)

    made.thread(process, "Main", main, priority=10)
    made.thread(process, "Worker", body, priority=10)
    made.run(LENGTH_NS)
    return made


def mean(made: Simulation) -> float:
    return fidelity.summary([frame.end - frame.start for frame in made.truth.frames]).mean


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """1: on siblings. 2: on one CPU. 3: both compute, the main thread less. 4: it computes more."""
    every = [
        ("siblings", played(smt=True)),
        ("one CPU", played(smt=False)),
        ("computes", played(smt=True, computes=True, longer=0.9)),
        ("computes more", played(smt=True, computes=True, longer=1.2)),
    ]
    with simulated.simulated_database(tmp_path_factory.mktemp("spins"), every) as con:
        yield con


def baseline(con: duckdb.DuckDBPyConnection, trace_id: int) -> prediction.Baseline:
    found = prediction.baseline(con, trace_id)
    assert isinstance(found, prediction.Baseline), found
    return found


# (recording, changes, the program with them, the least true gain in percent)
PAIRS: dict[str, tuple[int, tuple[str, ...], dict[str, float | bool], float]] = {
    "sleeping leaves the core to the worker": (1, ("sleep Main",), {"spins": False}, 20),
    "sleeping leaves the CPU to the worker": (2, ("sleep Main",), {"spins": False}, 10),
    "a shorter job ends the spin earlier": (1, ("work Worker=-50%",), {"worker": 0.5}, 30),
    "both": (
        1, ("sleep Main", "work Worker=-50%"), {"spins": False, "worker": 0.5}, 40,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_interval_contains_the_true_frames(con: duckdb.DuckDBPyConnection, name: str) -> None:
    trace_id, texts, options, least = PAIRS[name]
    made = prediction.predict(baseline(con, trace_id), [alterations.parse(text) for text in texts])
    assert made.frames is not None, made.why
    found = made.frames["mean"]
    assert found is not None
    before = mean(played(smt=trace_id == 1))
    true = mean(played(smt=trace_id == 1, **options))  # type: ignore[arg-type]
    assert found.low <= true <= found.high
    assert 100 * (1 - true / before) >= least
    assert found.high < before


@pytest.mark.parametrize(
    ("trace_id", "spinning"), [(1, {"Main"}), (2, {"Main"}), (3, set()), (4, set())]
)
def test_only_what_ends_with_the_act_of_another_spins(
    con: duckdb.DuckDBPyConnection, trace_id: int, spinning: set[str]
) -> None:
    recorded = programs.read(con, trace_id)
    assert {recorded.programs[utid].name for utid in recorded.spinning} == spinning


def test_thread_that_is_not_seen_to_spin_cannot_sleep_instead(
    con: duckdb.DuckDBPyConnection,
) -> None:
    made = prediction.predict(baseline(con, 1), [alterations.parse("sleep Worker")])
    assert made.why is not None
    assert made.why.startswith("Worker is not seen to spin")


def blocked(late_ns: int) -> list[tuple[int, int]]:
    """Twenty stretches of 40 to 59 us from each 100 us on, then waits up to the next."""
    return [
        (start + 40_000 + 1_000 * (place * 7 % 20) + late_ns, start + 100_000)
        for place, start in enumerate(range(0, 2_000_000, 100_000))
    ]


@pytest.mark.parametrize(("pools", "number"), [({1: 0, 2: 1}, 20), ({1: 0, 2: 0}, 0)])
def test_workers_of_a_pool_that_end_together_do_not_spin(
    pools: dict[int, int], number: int
) -> None:
    threads = {
        utid: Program(utid, utid, f"T {utid}", "game.exe", 1, 8, [0], None) for utid in (1, 2)
    }
    waits = {1: blocked(10), 2: blocked(0)}
    found = spins.found(threads, {}, waits, pools, 2_000_000, 0.0)
    assert len(found) == number - bool(number)
    assert {(spin.utid, spin.by) for spin in found} == ({(1, 2)} if number else set())
