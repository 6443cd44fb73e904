"""Rows of equal time or zero length change no total, and no filter changes a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from decoders.test_interval_queries import answers, row
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from fixture_files import fixture
from grid_schedule import CELL, Schedule, database
from load.test_tables_folder import loaded
from tables_export import IN_TIME, export

from schedlens.ask import catalog
from schedlens.load import recording_rows
from schedlens.load.recording import Recording

pytestmark = pytest.mark.slow

C = CELL
TYPED = [Cpu(0, 0, core_type="P"), Cpu(1, 1, core_type="E"), Cpu(2, 2, core_type=None)]

MOVES = "SELECT left_ns, back_ns, away_ns, run_ns, ready_ns FROM core_type_move"


# ns        0    100  200  300  400  500
# cpu 0 P   A A                      A A
# cpu 1 E        A A
# cpu 2 ?             (A A A A)          core type unknown
def test_running_time_on_core_of_unknown_type_counts_in_migration() -> None:
    with drawn_database() as con:
        DrawnTrace(con, [
            Slice("game/A", 0, 0, 100, end="preempted"),
            Slice("game/A", 1, 100, 200, wait=0, end="preempted"),
            Slice("game/A", 2, 300, 200, wait=0, end="preempted"),
            Slice("game/A", 0, 500, 100, wait=0, end="trace_end"),
        ], TYPED, 600)  # fmt: skip
        assert con.execute(MOVES).fetchall() == [(100, 500, 400, 400, 0)]


@pytest.fixture
def crowded() -> Iterator[duckdb.DuckDBPyConnection]:
    """Moves between P and E cores with zero-length slices on both at the times of the switches."""
    with drawn_database() as con:
        slices = [
            Slice("game/A", step % 2, step * 10, 10, wait=0, end="preempted") for step in range(12)
        ]
        trace = DrawnTrace(con, slices, TYPED, 120)
        for step in range(1, 12):
            for cpu in (0, 1, 0, 1, 0):
                trace.add(
                    "sched_slice", utid=trace.utid("game/A"), ts=step * 10, dur=0, cpu=cpu,
                    is_idle=False, left_censored=False, right_censored=False,
                )  # fmt: skip
        yield con


def test_zero_length_slices_are_no_migrations(crowded: duckdb.DuckDBPyConnection) -> None:
    expected = [(ts, ts + 10, 10, 10, 0) for ts in (10, 30, 50, 70, 90)] + [(110, None, 10, 10, 0)]
    assert crowded.execute(MOVES).fetchall() == expected


@pytest.mark.parametrize(
    "where", ["left_ns > 40", "thread = 'A'", "to_cpu = 1", "NOT censored", "ready_ns = 0"]
)
def test_filter_does_not_change_remaining_migrations(
    crowded: duckdb.DuckDBPyConnection, where: str
) -> None:
    everything = crowded.execute(f"SELECT *, ({where}) FROM core_type_move").fetchall()
    kept = crowded.execute(f"FROM core_type_move WHERE {where}").fetchall()
    assert kept == [values[:-1] for values in everything if values[-1]]


def test_row_order_does_not_change_migrations(
    crowded: duckdb.DuckDBPyConnection,
) -> None:
    before = crowded.execute("FROM core_type_move").fetchall()
    crowded.execute("CREATE TABLE copy AS FROM sched_slice ORDER BY cpu DESC, dur, ts DESC")
    crowded.execute("DELETE FROM sched_slice")
    crowded.execute("INSERT INTO sched_slice FROM copy")
    assert crowded.execute("FROM core_type_move").fetchall() == before


# CPU 1 is idle throughout; two parking records at cell 2 contradict each other.
@pytest.mark.parametrize("parked_last", [False, True])
@pytest.mark.parametrize("begin", [0, 2])
def test_later_of_two_simultaneous_parking_records_wins(parked_last: bool, begin: int) -> None:
    plan = Schedule(
        cpus={0: row("1111 11"), 1: row(".... ..")}, cores={0: 0, 1: 1}, source="etw",
        ready={2: [True] * 6}, allowed={2: [(0, frozenset({1}))]},
        parking={1: [None] * begin + [(parked_last, None)] * (6 - begin)}, ties=True,
    )  # fmt: skip
    with answers(plan) as con:
        spells = con.execute(
            f"SELECT state FROM parking_spell WHERE cpu = 1 AND ts = {begin * C} AND dur > 0"
        ).fetchall()
        free = con.execute("SELECT coalesce(sum(dur), 0) FROM whole_idle_core").fetchall()
        [(available, parked)] = con.execute(
            "SELECT idle_available_ns, parked_available_ns FROM ready_obstacle"
        ).fetchall()
    length = (6 - begin) * C
    assert spells == [("parked" if parked_last else "unparked",)]
    assert free == [(0 if parked_last else length,)]
    assert (available, parked) == ((0, length) if parked_last else (length, 0))


@pytest.mark.parametrize("types", [("P", "E"), ("E", "P")])
def test_later_of_two_simultaneous_topology_rows_wins(types: tuple[str, str]) -> None:
    with drawn_database() as con:
        trace = DrawnTrace(con, [Slice("game/A", 0, 0, 100)], [Cpu(0, 0)], 100)
        for core_type in types:
            trace.add("cpu", cpu=0, core=0, core_type=core_type, online=True, valid_from_ns=40)
        rows = con.execute("SELECT core_type, run_ns FROM core_type_residency WHERE run_ns > 0")
        assert sorted(rows.fetchall()) == sorted([("U", 40), (types[1], 60)])


@pytest.mark.parametrize("sets", [([0], [1]), ([1], [0])])
def test_later_of_two_simultaneous_affinity_records_wins(sets: tuple[list[int], ...]) -> None:
    with drawn_database() as con:
        trace = DrawnTrace(con, [Slice("game/A", 0, 0, 100)], [Cpu(0, 0), Cpu(1, 1)], 100)
        for cpus in sets:
            trace.add("affinity", utid=trace.utid("game/A"), cpus=cpus, source="event")
        assert con.execute("SELECT cpus FROM affinity_spell").fetchall() == [(sets[1],)]


def test_zero_length_rows_change_no_total() -> None:
    cpus = {0: row("1111 .22. ??"), 1: row("33.. 3333 ..")}
    plain = Schedule(cpus=cpus, cores={0: 0, 1: 0}, allowed={4: [(0, frozenset({0, 1}))]})
    flashed = Schedule(
        cpus=cpus, cores={0: 0, 1: 0}, allowed=plain.allowed,
        flashes=((0, 4, 4), (1, 4, 4), (1, 2, 4), (0, 8, 4), (1, 9, 4)),
    )  # fmt: skip
    asked = (
        "SELECT * EXCLUDE (core) FROM sibling_overlap", "FROM sibling_overlap_total",
        "SELECT ts, dur FROM whole_idle_core(p_min_idle_ns := 0)", "FROM concurrency",
        "SELECT cpu, thread_ns, idle_ns, unknown_ns FROM cpu_time", "FROM runnable_count",
        "FROM sharing_by_affinity", "FROM avoidable_sharing_total",
        "SELECT utid, sum(run_ns), sum(shared_ns), sum(unknown_ns) FROM thread_core_use "
        "WHERE tid < 4 GROUP BY utid ORDER BY utid",
    )  # fmt: skip
    with answers(plain) as one, answers(flashed) as two:
        for question in asked:
            assert one.execute(question).fetchall() == two.execute(question).fetchall(), question


@pytest.mark.parametrize("name", ["plain", "counters"])
def test_row_order_changes_no_view(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Times rounded down to 2 ms: many zero-length slices, and several records at each time.
    con = loaded(fixture(name, tmp_path_factory))
    for table in IN_TIME:
        con.execute(f"UPDATE {table} SET ts = ts // 2000000 * 2000000")
    folder = export(con, tmp_path / "tables")
    with database() as stored, database() as shuffled:
        recording = Recording(name, folder)
        assert recording_rows.load_rows(stored, [recording], (None, None), _silent) == []
        flashes = stored.execute("SELECT count(*) FROM sched_slice WHERE dur = 0").fetchall()
        assert flashes[0][0] >= 50
        tables = stored.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() "
            "AND schema_name = 'main' AND NOT temporary"
        ).fetchall()
        for (table,) in tables:
            rows = stored.sql(f"FROM {table} ORDER BY hash(rowid)").to_arrow_table()
            if rows.num_rows:
                shuffled.from_arrow(rows).insert_into(table)
        for query in catalog.load_all():
            asked = f"FROM {query.full_name}"
            assert _rounded(stored, asked) == _rounded(shuffled, asked), asked


def _silent(label: str, share: float) -> None:
    return None


def _rounded(con: duckdb.DuckDBPyConnection, asked: str) -> list[tuple[object, ...]]:
    """Rows with floating-point sums rounded, as their order may differ."""
    return [
        tuple(round(value, 6) if isinstance(value, float) else value for value in values)
        for values in con.execute(asked).fetchall()
    ]
