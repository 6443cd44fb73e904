"""Two CPUs over 100 ns, in ten columns and in one column per nanosecond.

CPU 0   AAAAAAAAAAAAAAAAAAAAAAAAA AAABBB ____________   # A 0..25 and 25..31, B 31..34, idle
CPU 1   unknown 0..60, an interrupt 60..68, idle 68..100
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from prepared_database import prepare

from schedlens.report.sections import Section, View, chapters, made

A, B = (1 << 32) + 1, (1 << 32) + 2


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        prepare(con)
        con.execute(
            "INSERT INTO trace (trace_id, label, source, first_ns, duration_ns, schema_version, "
            "tool_version) VALUES (1, 'drawn', 'perf', 0, 100, 1, 'test')"
        )
        con.execute("INSERT INTO analysis_window VALUES (1, 0, 100, 'trace')")
        con.execute(
            "INSERT INTO process (trace_id, upid, pid, name) VALUES (1, 4294967297, 7, 'game')"
        )
        con.execute(
            "INSERT INTO thread (trace_id, utid, tid, upid, name, is_idle) VALUES "
            f"(1, {A}, 71, 4294967297, 'A', false), (1, {B}, 72, NULL, 'B', false)"
        )
        con.execute(
            "INSERT INTO sched_slice (trace_id, cpu, ts, dur, utid, is_idle, left_censored, "
            f"right_censored) SELECT *, false, false, false FROM (VALUES (1, 0, 0, 25, {A}), "
            f"(1, 0, 25, 6, {A}), (1, 0, 31, 3, {B}))"
        )
        con.execute(
            "INSERT INTO cpu_state_other VALUES (1, 0, 34, 66, 'idle'), (1, 1, 0, 60, 'unknown'), "
            "(1, 1, 60, 8, 'interrupt'), (1, 1, 68, 32, 'idle')"
        )
        yield con


def test_longest_slice_wins_each_column(con: duckdb.DuckDBPyConnection) -> None:
    # Column 3 of CPU 0 contains 1 ns of A, 3 of B and 6 of idle; column 6 of CPU 1 8 of interrupt.
    found = con.execute(
        "SELECT cpu, start_ns, dur_ns, state, thread FROM cpu_timeline(p_columns := 10)"
    ).fetchall()
    assert found == [
        (0, 0, 30, "thread", "A"),
        (0, 30, 70, "idle", None),
        (1, 0, 60, "unknown", None),
        (1, 60, 10, "interrupt", None),
        (1, 70, 30, "idle", None),
    ]


def test_one_column_per_ns_shows_every_slice(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute(
        "SELECT start_ns, dur_ns, state, tid, thread, process FROM cpu_timeline(p_columns := 100) "
        "WHERE cpu = 0"
    ).fetchall()
    assert found == [
        (0, 31, "thread", 71, "A", "game"),
        (31, 3, "thread", 72, "B", None),
        (34, 66, "idle", None, None, None),
    ]


def test_window_clips_both_ends(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute(
        "SELECT cpu, start_ns, dur_ns, state FROM cpu_timeline(p_from_ns := 32, p_to_ns := 67, "
        "p_columns := 35)"
    ).fetchall()
    assert found == [
        (0, 32, 2, "thread"),
        (0, 34, 33, "idle"),
        (1, 32, 28, "unknown"),
        (1, 60, 7, "interrupt"),
    ]


def test_last_column_ends_with_the_window(con: duckdb.DuckDBPyConnection) -> None:
    # 100 ns in 30 columns: 25 columns of 4 ns; a window of 98 ns ends within the last.
    found = con.execute(
        "SELECT cpu, sum(dur_ns)::BIGINT, max(start_ns + dur_ns)::BIGINT "
        "FROM cpu_timeline(p_to_ns := 98, p_columns := 30) GROUP BY cpu ORDER BY cpu"
    ).fetchall()
    assert found == [(0, 98, 98), (1, 98, 98)]


def test_figure_contains_every_slice(con: duckdb.DuckDBPyConnection) -> None:
    chapter = next(one for one in chapters() if one.name == "cpu_timeline")
    section = made(View(con, None, 1, "drawn"), chapter)
    assert isinstance(section, Section)
    plot = section.figures[0].drawn()
    assert plot["cpus"] == ["CPU 0", "CPU 1"]
    assert plot["threads"] == [
        {"name": "A (71)", "process": "game", "run_ns": 31, "shown": True},
        {"name": "B (72)", "process": "", "run_ns": 3, "shown": True},
    ]
    # Codes: 0 idle, 1 unknown, 3 interrupt, 5 and 6 the threads.
    assert plot["runs"] == {
        "row": [0, 0, 0, 1, 1, 1],
        "start": [0, 31, 34, 0, 60, 68],
        "dur": [31, 3, 66, 60, 8, 32],
        "code": [5, 6, 0, 1, 3, 0],
    }
