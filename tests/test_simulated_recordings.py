"""A simulated schedule as base tables, as .etl and as perf.data: one answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import simulated_events
from recording_writer import write

from schedlens import questions, store
from schedlens.recording import Recording
from schedlens.simulate import engine, tables
from schedlens.simulate.engine import MS, Game
from schedlens.simulate.machine import machine
from schedlens.simulate.scheduler import Rules, Simulation

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
    tables.write_folder(simulation, folder / "tables")
    write(simulated_events.head(simulation), simulated_events.lines(simulation), etl, perf)
    database = duckdb.connect()
    questions.create_schema(database)
    recordings = [
        Recording("tables", folder / "tables"), Recording("etl", etl), Recording("perf", perf),
    ]  # fmt: skip
    assert store.load(database, recordings, (None, None), lambda label, share: None) == []
    yield database
    database.close()


def rows(con: duckdb.DuckDBPyConnection, sql: str, trace_id: int) -> Rows:
    return con.execute(sql, [trace_id]).fetchall()


def test_the_etl_tells_every_stay_as_the_tables_do(con: duckdb.DuckDBPyConnection) -> None:
    expected = rows(con, SLICES, TABLES)
    assert len(expected) > 200
    assert rows(con, SLICES, ETL) == expected


def test_the_etl_tells_every_state_as_the_tables_do(con: duckdb.DuckDBPyConnection) -> None:
    assert rows(con, STATES, ETL) == rows(con, STATES, TABLES)


def test_the_stays_are_those_that_happened(
    con: duckdb.DuckDBPyConnection, simulation: Simulation
) -> None:
    happened = sorted(
        (s.start, s.cpu, s.tid, s.end - s.start) for s in simulation.truth.stays if s.end > s.start
    )
    for trace_id in (TABLES, ETL, PERF):
        told = [(ts, cpu, tid, dur) for tid, cpu, ts, dur, *_ in rows(con, SLICES, trace_id) if dur]
        assert told == happened


def test_frames_come_from_the_presents_of_the_etl(
    con: duckdb.DuckDBPyConnection, simulation: Simulation
) -> None:
    presents = [frame.present for frame in simulation.truth.frames]
    found = con.execute(
        "SELECT start_ns + dur_ns FROM frame WHERE trace_id = ? AND dur_ns IS NOT NULL ORDER BY 1",
        [ETL],
    ).fetchall()
    # In the trace alone a frame is what lies between two presents.
    assert {ns for (ns,) in found} <= set(presents)
    assert len(found) >= len(presents) - 1
