"""The file with the timeline's tables next to a session's database."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from schedlens.output import leftover
from schedlens.timeline.prepared import LEAST_PARTS, Timelines

Prepared = Callable[[duckdb.DuckDBPyConnection], Timelines]

FILE = "timeline.duckdb"
# The headers of a DuckDB file: one of them changes with each checkpoint.
_HEADERS = 3 * 4096


def stamp_of(database: Path) -> str:
    """Identifies the content of a database, also after the file was copied or moved."""
    with database.open("rb") as file:
        headers = file.read(_HEADERS)
    log = database.with_name(f"{database.name}.wal")
    pending = log.stat().st_size if log.exists() else 0
    return f"{hashlib.sha256(headers).hexdigest()[:32]}-{pending}"


def is_large(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether the timeline of a database is prepared in a file: else it is as fast without one."""
    rows: int = con.execute("SELECT count(*) FROM thread_state").fetchall()[0][0]
    return rows >= LEAST_PARTS


def prepare(con: duckdb.DuckDBPyConnection, prepared: Prepared) -> None:
    """Prepares every recording of a large database, for a session without a report."""
    if is_large(con):
        timelines = prepared(con)
        for (trace_id,) in con.execute("SELECT trace_id FROM trace ORDER BY trace_id").fetchall():
            timelines.of(trace_id)
        timelines.detach()


@contextmanager
def saved(database: Path) -> Iterator[Prepared]:
    """A function that prepares the timeline of a database that is being written.

    Of a large one (`is_large`), the tables go into a file, which gets its name when the block
    succeeds: only then, the database is complete. A file of an earlier database is removed in any
    case.
    """
    file = database.with_name(FILE)
    aside = leftover.unfinished(file)
    leftover.remove_unfinished(file)

    def prepared(con: duckdb.DuckDBPyConnection) -> Timelines:
        return Timelines(con, aside if is_large(con) else None)

    try:
        yield prepared
        file.unlink(missing_ok=True)
        if aside.exists():
            with duckdb.connect(str(aside), config={"threads": 1}) as con:
                con.execute("UPDATE source SET stamp = ?", [stamp_of(database)])
            aside.replace(file)
    finally:
        for path in (aside, aside.with_name(f"{aside.name}.wal")):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
