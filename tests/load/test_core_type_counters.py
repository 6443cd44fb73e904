"""Counters of one core type come from a file next to perf.data and join the same threads.

There is no hybrid machine here: the same recording serves as both files, so its counters must
appear twice, row by row.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest
from fixture_files import fixture

from schedlens.load import core_type_counters, recording_rows, store
from schedlens.load.recording import Recording


@pytest.mark.parametrize("name", ["counters", "host_counters"])
def test_core_type_counter_file_joins_its_threads(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture(name, tmp_path_factory)
    shutil.copy(trace, tmp_path / "counters-cpu_core.data")
    with store.create(tmp_path / "analysis.duckdb") as con:
        recording_rows.load_base_and_derived(con, Recording("step", trace), 1)
        once = {t: rows(con, t) for t in ("counter_sample", "counter_delta")}
        core_type_counters.load(con, tmp_path, 1)
        twice = {t: rows(con, t) for t in ("counter_sample", "counter_delta")}
    for table, expected in once.items():
        assert len(expected) >= 10
        assert twice[table] == sorted(expected * 2), table


def rows(con: duckdb.DuckDBPyConnection, table: str) -> list[tuple[object, ...]]:
    columns = {
        "counter_sample": "ts, cpu, utid, counter, value",
        "counter_delta": "ts, cpu, utid, counter, dur, delta",
    }[table]
    return sorted(con.execute(f"SELECT {columns} FROM {table}").fetchall())


def test_file_without_counters_is_reported(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    shutil.copy(trace, tmp_path / "counters-cpu_atom.data")
    with store.create(tmp_path / "analysis.duckdb") as con:
        recording_rows.load_base_and_derived(con, Recording("step", trace), 1)
        core_type_counters.load(con, tmp_path, 1)
        problems = con.execute(
            "SELECT what FROM problem WHERE place = 'counters-cpu_atom.data'"
        ).fetchall()
    assert problems == [("no counter was read at any switch",)]
