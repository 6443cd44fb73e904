"""A recording in a database with all tables, views and summaries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from schedlens.ask import analysis, blank_database
from schedlens.errors import NothingToReadError
from schedlens.load import query_threads, recording, store


@contextmanager
def loaded(path: Path, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """An analyzed database; raises `NothingToReadError` if the recording does not load."""
    found = recording.gather([path])
    threads = query_threads.count(found)
    with store.create(
        folder / "analysis.duckdb", place=blank_database.place, threads=threads
    ) as con:
        failures = analysis.load(con, found, (None, None), lambda *_: None)
        if failures:
            raise NothingToReadError(failures[0].line)
        yield con
