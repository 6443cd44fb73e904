"""Woken threads that remain on busy CPUs, as a recording shows it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import simulated

from schedlens.replay import fidelity, prediction, programs, rerun, work
from schedlens.simulate import engine
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation

LENGTH_NS = 600 * MS
SHARES = (0.0, 0.6, 1.0)


def played(share: float) -> Simulation:
    """Three threads whose ideal processor is the same of four CPUs."""
    rules = Rules(interrupts_per_s=0, wake_boost=0, stranded_share=share)
    made = Simulation(machine(4, smt=False), rules, seed=3)
    process = made.process("short.exe")
    for number in range(3):
        body = engine.busy(2.0 + 0.3 * number, pause_ms=1.5 + 0.4 * number)
        made.thread(process, f"Short {number}", body, ideal=0)
    made.run(LENGTH_NS)
    return made


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    every = [(f"share {share}", played(share)) for share in SHARES]
    with simulated.simulated_database(tmp_path_factory.mktemp("stranded"), every) as con:
        yield con


@pytest.mark.parametrize(("trace_id", "share"), list(enumerate(SHARES, 1)))
def test_unchanged_replay_strands_as_many_threads_as_the_recording(
    con: duckdb.DuckDBPyConnection, trace_id: int, share: float
) -> None:
    recorded = programs.read(con, trace_id, watched=work.watched(con, trace_id, "short.exe"))
    assert recorded.stranded_share == pytest.approx(share, abs=0.1)
    error = fidelity.compare(recorded, rerun.replay(recorded), None)
    assert error.worst()[0] < (0.08 if 0 < share < 1 else 0.01)
    if share:
        recorded.stranded_share = 0.0
        error = fidelity.compare(recorded, rerun.replay(recorded), None)
        assert error.ready_error > fidelity.LIMIT


def test_idle_cpus_that_are_parked_do_not_count(con: duckdb.DuckDBPyConnection) -> None:
    assert isinstance(prediction.baseline(con, 3), prediction.Baseline)
    con.execute("BEGIN")
    try:
        con.execute(
            "INSERT INTO cpu_parking BY NAME SELECT 3 AS trace_id, 0 AS ts, cpu, true AS parked, "
            "false AS soft_parked FROM range(1, 4) AS t(cpu)"
        )
        assert programs.read(con, 3).stranded_share == 0.0
    finally:
        con.execute("ROLLBACK")
