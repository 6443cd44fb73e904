"""What a recording says about the programs of its threads, and their unchanged replay."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import frames_with_worker
import pytest
import simulated

from schedlens.replay import core_speeds, fidelity, programs, rerun
from schedlens.replay.ops import Program
from schedlens.replay.recorded_programs import Recorded
from schedlens.simulate import cases
from schedlens.simulate.machine import machine
from schedlens.simulate.scheduler import Simulation

MS = 1_000_000


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """1: a main thread and its worker. 2: the worker on an E core. 3 and 4: cases of the demo."""
    worker = frames_with_worker.simulation()
    slow = frames_with_worker.simulation(on=machine(1, 1, smt=False), affinity=[1])
    for made in (worker, slow):
        made.run(200 * MS)
    played: list[tuple[str, Simulation]] = [("worker", worker), ("slow", slow)]
    played += [(case.name, case.play(seconds=1.0)) for case in cases.CASES[1:]]
    folder = tmp_path_factory.mktemp("replay")
    with simulated.simulated_database(folder, played) as con:
        yield con


def named(recorded: Recorded, name: str) -> Program:
    return next(found for found in recorded.programs.values() if found.name == name)


def test_program_has_work_wakeups_and_waits(con: duckdb.DuckDBPyConnection) -> None:
    recorded = programs.read(con, 1)
    main = named(recorded, "Main")
    kinds = [op.kind for op in main.ops]
    assert kinds[:5] == ["run", "open", "wait", "run", "present"]
    assert main.ops[0].value == 2 * MS
    # The signal's 500 ns are charged when it is replayed.
    assert named(recorded, "Worker").ops[1].value == pytest.approx(6 * MS, abs=600)
    assert main.ops[1].gates == named(recorded, "Worker").ops[0].gates
    # 20 frames of 10 ms, in which each waits for the other; one wait never ends.
    assert recorded.waits == {"thread": 40, "unknown": 1}


def test_work_is_in_units_of_the_fastest_core(con: duckdb.DuckDBPyConnection) -> None:
    # 6 ms of work take 10.9 ms on an E core of speed 0.55. No thread ran on both types, so the
    # speed is assumed: the middle of its range is 0.55.
    recorded = programs.read(con, 2)
    assert recorded.machine.types["E"].source == "assumed"
    assert named(recorded, "Worker").ops[1].value == pytest.approx(6 * MS, rel=1e-3)
    low = programs.read(con, 2, end="low")
    assert named(low, "Worker").ops[1].value == pytest.approx(6 * MS * 0.45 / 0.55, rel=1e-3)


@pytest.mark.parametrize("trace_id", [1, 2, 3, 4])
def test_unchanged_replay_reproduces_the_recording(
    con: duckdb.DuckDBPyConnection, trace_id: int
) -> None:
    recorded = programs.read(con, trace_id)
    outcome = rerun.replay(recorded)
    (presenter,) = recorded.frames
    errors = fidelity.compare(recorded, outcome, presenter)
    assert errors.worst()[0] < (0.001 if trace_id != 3 else 0.06)
    assert rerun.replay(recorded) == outcome


def test_speeds_come_from_instructions_that_the_same_thread_retired(
    con: duckdb.DuckDBPyConnection,
) -> None:
    speeds = programs.read(con, 3).machine
    assert speeds.types["E"].source == "instructions"
    assert speeds.types["E"].middle == pytest.approx(0.55, rel=0.01)
    assert speeds.shared is not None
    assert speeds.shared.middle == pytest.approx(0.6, rel=0.02)


def test_idle_slice_after_another_is_no_evidence_of_an_idle_sibling() -> None:
    con = duckdb.connect()
    # Between the idle slices, the switch to a thread that ran up to 90 is not recorded.
    con.execute(
        "CREATE TABLE sched_slice AS FROM (VALUES (1, 3, 0, 10, false), (1, 3, 10, 5, true), "
        "(1, 3, 15, 75, true), (1, 3, 90, 10, false), (1, 3, 100, 7, true)) "
        "AS t(trace_id, cpu, ts, dur, is_idle)"
    )
    (idle,) = core_speeds._slices(con, 1, {3: 0}, is_idle=True)
    assert idle.slices() == [(10, 15), (100, 107)]
    (busy,) = core_speeds._slices(con, 1, {3: 0}, is_idle=False)
    assert busy.slices() == [(0, 10), (90, 100)]
    assert busy.gaps(5, 95) == [(10, 90)]


def test_changed_machine_is_noticed(con: duckdb.DuckDBPyConnection) -> None:
    # A replay in which the worker has half of its work is far from the recording.
    recorded = programs.read(con, 1)
    worker = named(recorded, "Worker")
    worker.ops = [
        type(op)(op.kind, op.value / 2 if op.kind == "run" else op.value, op.gates)
        for op in worker.ops
    ]
    (presenter,) = recorded.frames
    errors = fidelity.compare(recorded, rerun.replay(recorded), presenter)
    assert errors.frames is not None
    assert errors.frames["mean"] == pytest.approx(0.3, abs=0.01)
    assert errors.worst()[0] > fidelity.LIMIT
