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


@contextmanager
def saved(database: Path) -> Iterator[Callable[[duckdb.DuckDBPyConnection], Timelines]]:
    """A function that prepares the timeline of a database that is being written.

    Of a large one, the tables go into a file, which gets its name when the block succeeds: only
    then, the database is complete. A file of an earlier database is removed in any case.
    """
    file = database.with_name(FILE)
    aside = leftover.unfinished(file)
    leftover.remove_unfinished(file)
    made: list[Timelines] = []

    def prepared(con: duckdb.DuckDBPyConnection) -> Timelines:
        rows = con.execute("SELECT count(*) FROM thread_state").fetchall()[0][0]
        made.append(Timelines(con, aside if rows >= LEAST_PARTS else None))
        return made[0]

    try:
        yield prepared
        if made:
            file.unlink(missing_ok=True)
        if aside.exists():
            with duckdb.connect(str(aside)) as con:
                con.execute("UPDATE source SET stamp = ?", [stamp_of(database)])
            aside.replace(file)
    finally:
        for path in (aside, aside.with_name(f"{aside.name}.wal")):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
