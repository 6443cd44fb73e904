"""A simulated schedule as base tables, as .etl, and as perf.data gives one answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import simulated_events
from prepared_database import prepare
from recording_writer import write

from schedlens.ask import analysis
from schedlens.load.arrow_folder import simulated
from schedlens.load.recording import Recording
from schedlens.simulate import engine
from schedlens.simulate.engine import MS, Game
from schedlens.simulate.machine import machine
from schedlens.simulate.rules import Rules
from schedlens.simulate.scheduler import Simulation

pytestmark = pytest.mark.slow

TABLES, ETL, PERF = 1, 2, 3
Rows = list[tuple[Any, ...]]

NAMED = "(SELECT tid FROM thread AS who WHERE who.utid = {})"
SLICES = f"""
SELECT {NAMED.format("s.utid")} AS tid, cpu, ts, dur, end_reason, ready_ns, prev_cpu
FROM sched_slice AS s WHERE trace_id = ? AND NOT is_idle ORDER BY ts, cpu, tid
"""
STATES = f"""
SELECT {NAMED.format("s.utid")} AS tid, ts, dur, state
FROM thread_state AS s WHERE trace_id = ? AND dur > 0 ORDER BY tid, ts
"""


def played() -> Simulation:
    """150 ms of a game, background threads and a system on 2 P cores and 4 E cores."""
    rules = Rules(clock_tick_ns=MS, quantum_ticks=4, start_work_ns=2_000)
    simulation = Simulation(machine(2, 4), rules, seed=3)
    engine.play(simulation, Game(game_jobs=6, workers=3, render_ms=2.0, gpu_ms=4.0))
    engine.background(simulation, 6, work_ms=7.0, pause_ms=1.0)
    engine.interlopers(simulation, 3)
    simulation.park(40 * MS, 7, True, "idle")
    simulation.park(90 * MS, 7, False, "busy")
    simulation.run(150 * MS)
    return simulation


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    """Played once."""
    return played()


@pytest.fixture(scope="module")
def con(
    simulation: Simulation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The three recordings in one database."""
    folder = tmp_path_factory.mktemp("simulated")
    etl, perf = folder / "a.etl", folder / "a.perf.data"
    simulated.write_folder(simulation, folder / "tables")
    write(simulated_events.head(simulation), simulated_events.lines(simulation), etl, perf)
    database = duckdb.connect()
    prepare(database)
    recordings = [
        Recording("tables", folder / "tables"), Recording("etl", etl), Recording("perf", perf),
    ]  # fmt: skip
    assert analysis.load(database, recordings, (None, None), lambda label, share: None) == []
    yield database
    database.close()


def rows(con: duckdb.DuckDBPyConnection, sql: str, trace_id: int) -> Rows:
    return con.execute(sql, [trace_id]).fetchall()


def test_etl_and_tables_have_the_same_slices(con: duckdb.DuckDBPyConnection) -> None:
    expected = rows(con, SLICES, TABLES)
    assert len(expected) > 200
    assert rows(con, SLICES, ETL) == expected


def test_both_formats_and_tables_have_the_same_states(con: duckdb.DuckDBPyConnection) -> None:
    expected = rows(con, STATES, TABLES)
    assert rows(con, STATES, ETL) == expected
    assert rows(con, STATES, PERF) == expected


# Linux does not record why a thread left runnable; all else is equal.
def test_perf_data_and_tables_have_the_same_slices(con: duckdb.DuckDBPyConnection) -> None:
    runnable = {"quantum_end", "quantum_end_or_yield", "throttled_or_moved", "preempted"}
    runnable |= {"runnable_other", "yield"}

    def rows_without_reason(trace_id: int) -> Rows:
        return [
            (*row[:4], "runnable" if row[4] in runnable else row[4], *row[5:])
            for row in rows(con, SLICES, trace_id)
        ]

    assert rows_without_reason(PERF) == rows_without_reason(TABLES)


def test_slices_match_the_simulation(
    con: duckdb.DuckDBPyConnection, simulation: Simulation
) -> None:
    happened = sorted(
        (s.start, s.cpu, s.tid, s.end - s.start) for s in simulation.truth.slices if s.end > s.start
    )
    for trace_id in (TABLES, ETL, PERF):
        recorded = [
            (ts, cpu, tid, dur) for tid, cpu, ts, dur, *_ in rows(con, SLICES, trace_id) if dur
        ]
        assert recorded == happened


def test_frames_come_from_etl_presents(
    con: duckdb.DuckDBPyConnection, simulation: Simulation
) -> None:
    presents = [frame.present for frame in simulation.truth.frames]
    found = con.execute(
        "SELECT start_ns + dur_ns FROM frame WHERE trace_id = ? AND dur_ns IS NOT NULL ORDER BY 1",
        [ETL],
    ).fetchall()
    # In the trace alone a frame is the time between two presents.
    assert {ns for (ns,) in found} <= set(presents)
    assert len(found) >= len(presents) - 1


def test_presentmon_frames_are_on_the_etl_clock(
    con: duckdb.DuckDBPyConnection, simulation: Simulation, tmp_path: Path
) -> None:
    ((clock, path),) = con.execute(
        "SELECT start_clock, path FROM trace WHERE trace_id = ?", [ETL]
    ).fetchall()
    capture = tmp_path / "frames.csv"
    capture.write_text(simulated_events.presentmon(simulation, clock))
    with duckdb.connect() as joined:
        prepare(joined)
        both = Recording("etl", Path(path), frames=capture)
        assert analysis.load(joined, [both], (None, None), lambda label, share: None) == []
        found = joined.execute(
            "SELECT start_ns, dur_ns, cpu_busy_ns, gpu_busy_ns, displayed_ns, "
            "clock_residual_ns FROM frame ORDER BY frame"
        ).fetchall()
    assert found == [
        (f.start, f.end - f.start, f.present - f.start or None, f.gpu_end - f.gpu_start,
         f.displayed, 0)
        for f in simulation.truth.frames
    ]  # fmt: skip
