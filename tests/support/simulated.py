"""Simulated recordings, loaded as `analyze` loads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from schedlens.ask import analysis, blank_database
from schedlens.load import query_threads, recording, store
from schedlens.load.arrow_folder import simulated
from schedlens.simulate.scheduler import Simulation


@contextmanager
def simulated_database(
    folder: Path, simulations: Sequence[tuple[str, Simulation]]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database of these simulations in their order; trace_id counts from 1."""
    paths = []
    for label, simulation in simulations:
        simulated.write_folder(simulation, folder / label, label=label)
        paths.append(folder / label)
    found = recording.gather(paths)
    threads = query_threads.count(found)
    with store.create(
        folder / "analysis.duckdb", place=blank_database.place, threads=threads
    ) as con:
        failures = analysis.load(con, found, (None, None), lambda *_: None)
        assert failures == []
        yield con
