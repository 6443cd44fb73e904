"""Small lakes for tests, written as `analyze --lake` writes them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import fixture_files
import pytest

from schedlens.ask import analysis, blank_database, judging
from schedlens.ask.findings import Finding, Scope
from schedlens.lake import written
from schedlens.lake.file_access import LakeFiles
from schedlens.lake.manifest import Entry
from schedlens.load import recording, store
from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases


def recordings(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A perf.data with lost wakeups, and a simulation with frames and parked CPUs."""
    perf = folder / "plain.perf.data"
    shutil.copyfile(fixture_files.fixture("plain", tmp_path_factory), perf)
    case = next(case for case in cases.CASES if case.name == "parked")
    simulated.write_folder(case.play(seconds=0.1), folder / "parked", label="parked")
    return [perf, folder / "parked"]


def add(
    place: str | Path,
    paths: Sequence[Path],
    database: Path,
    *,
    machine: str | None = None,
    build: str | None = None,
    other: str | None = None,
    only: Sequence[str] = ("concurrency",),
) -> tuple[list[Entry], list[Finding]]:
    """Analyzes recordings together into a database and a lake, and the same into an `other` one.

    Returns what `written.write` returns for the first, and the findings of the analyzers named;
    all of them take longer than the rest.
    """
    files = LakeFiles(place)
    planned = written.planned(files, recording.gather(paths), machine=machine, build=build)
    with store.create(database, place=blank_database.place) as con:
        failures = analysis.load(
            con,
            [known.recording for known in planned],
            (None, None),
            lambda *_: None,
            [known.trace_id for known in planned],
        )
        assert failures == []
        judged = judging.judge_all(Scope(con), only)
        judging.store(con, judged)
        if other is not None:
            written.write(con, LakeFiles(other), planned)
        return written.write(con, files, planned), judged.findings


def rows(con: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """The rows of a table or view, sorted as text: comparable between databases.

    DuckDB adds up doubles in any order, so that their last digits are left out.
    """
    return sorted(
        repr([f"{value:.12g}" if isinstance(value, float) else value for value in row])
        for row in con.execute(f"FROM {name}").fetchall()
    )


@cache
def views() -> list[str]:
    """The names of all queries."""
    from schedlens.ask import catalog

    return [query.full_name for query in catalog.load_all()]


def tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    """The names of all tables."""
    found: list[tuple[Any, ...]] = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
    ).fetchall()
    return [row[0] for row in found]
