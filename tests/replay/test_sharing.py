"""Whether running threads move off shared cores, as a recording shows it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import simulated

from schedlens.replay import alterations, fidelity, prediction, programs, rerun, sharing, work
from schedlens.replay.work import GOAL_SHARE
from schedlens.simulate.engine import MS
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Body, Run, Script
from schedlens.simulate.thread import Thread

LENGTH_NS = 700 * MS


def once(work_ms: float) -> Body:
    def body(thread: Thread) -> Script:
        yield Run(work_ms * MS)

    return body


def sharing_threads(*, moves: bool) -> Simulation:
    """On two cores, a thread that starts while both are busy shares one that never becomes free:

    CPU 0  Long ------------------------------>
    CPU 1           Late --------------------->
    CPU 2  Short -------|   (idle)
    """
    made = Simulation(machine(2), Rules(interrupts_per_s=0, moves_running=moves), seed=3)
    process = made.process("share.exe")

    made.thread(process, "Long", once(2000), ideal=0)
    made.thread(process, "Short", once(60), ideal=2)
    made.thread(process, "Late", once(2000), ideal=1, start_ns=8 * MS)
    made.run(LENGTH_NS)
    return made


def slow_thread(*, moves: bool) -> Simulation:
    """A thread that starts on the E core while the P core is busy for 60 ms."""
    on = machine(1, 1, smt=False)
    made = Simulation(on, Rules(interrupts_per_s=0, moves_running=moves), seed=3)
    process = made.process("share.exe")
    made.thread(process, "Short", once(60), ideal=0)
    made.thread(process, "Late", once(2000), ideal=0, start_ns=8 * MS)
    made.run(LENGTH_NS)
    return made


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """1 and 3: a scheduler that does not move running threads. 2 and 4: one that does."""
    played = [(f"moves {moves}", sharing_threads(moves=moves)) for moves in (False, True)]
    played += [(f"slow {moves}", slow_thread(moves=moves)) for moves in (False, True)]
    with simulated.simulated_database(tmp_path_factory.mktemp("sharing"), played) as con:
        yield con


@pytest.mark.parametrize(("trace_id", "moves"), [(1, False), (2, True), (3, False), (4, True)])
def test_unchanged_replay_follows_the_rule_of_the_recording(
    con: duckdb.DuckDBPyConnection, trace_id: int, moves: bool
) -> None:
    recorded = programs.read(con, trace_id, watched=work.watched(con, trace_id, "share.exe"))
    assert recorded.moves_running == moves
    outcome = rerun.replay(recorded)
    assert fidelity.compare(recorded, outcome, None).worst()[0] < 0.01
    if trace_id == 3:
        # Its ideal processor is not recorded, and may be the E core, from which it never moves.
        return
    recorded.moves_running = not moves
    assert fidelity.compare(recorded, rerun.replay(recorded), None).worst()[0] > fidelity.LIMIT


def test_scheduler_that_moved_threads_before_moves_them(
    con: duckdb.DuckDBPyConnection,
) -> None:
    recorded = programs.read(con, 1)
    con.execute("BEGIN")
    try:
        # Two more threads whose quantum ended on CPU 3, which became idle, and that ran on at once.
        for number, ts in enumerate((100 * MS, 200 * MS)):
            con.execute(
                "INSERT INTO sched_slice BY NAME SELECT *, false AS left_censored, "
                "false AS right_censored FROM (VALUES "
                "(1, 900 + $n, 3, $ts, 10, false, 'quantum_end'), "
                "(1, 0, 3, $ts + 10, 10, true, NULL), "
                "(1, 900 + $n, 2, $ts + 10, 10, false, 'blocked')) "
                "AS t(trace_id, utid, cpu, ts, dur, is_idle, end_reason)",
                {"n": number, "ts": ts},
            )
        assert sharing.moves_running(con, 1, recorded.machine, recorded.programs, set(), None)
    finally:
        con.execute("ROLLBACK")


def test_parked_cores_are_not_free(con: duckdb.DuckDBPyConnection) -> None:
    recorded = programs.read(con, 1)
    known = (con, 1, recorded.machine, recorded.programs)
    assert not sharing.moves_running(*known, set(), None)
    assert sharing.moves_running(*known, {2, 3}, None)
    # With a longer quantum, it may just not have ended.
    assert sharing.moves_running(*known, set(), 250 * MS)


def test_interval_contains_the_true_throughput_with_less_work(
    con: duckdb.DuckDBPyConnection,
) -> None:
    base = prediction.baseline(con, 1, process="share.exe")
    assert isinstance(base, prediction.Baseline), base
    found = prediction.predict(base, [alterations.parse("work share.exe/*=-30%")])
    made = found.figure("throughput")
    assert made is not None
    assert isinstance(base.figures, work.Work)
    # 700 ms of Long, 692 of Late on one core at a speed of 0.6, and Short: less work ends sooner.
    assert made.value / base.figures.throughput == pytest.approx(1 / 0.7, rel=0.03)
    assert base.figures.throughput < made.low


def test_overlapping_work_is_done_evenly() -> None:
    # Both do one per ns; after 100 of 200 ns, one of them has done its work.
    assert work.reached([(0, 200, 200.0), (0, 100, 100.0)], 250.0) == 150
    assert work.reached([(0, 200, 200.0), (0, 100, 100.0)], 100.0) == 50
    assert work.reached([(0, 100, 100.0), (100, 100, 50.0)], 150.0) == 100
    assert work.reached([(0, 100, 100.0)], 100.0) == 100
    assert work.reached([(0, 100, 100.0)], 101.0) is None
    goal = work.goal([(0, 200, 200.0, 1), (0, 100, 100.0, 2)], {})
    assert goal is not None
    assert (goal.work_ns, goal.took_ns) == (300 * GOAL_SHARE, 170)
