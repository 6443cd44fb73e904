"""Opens an analyzed session for the server, with the timeline's tables in a file next to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from schedlens.errors import DatabaseError
from schedlens.load import store
from schedlens.load.schema import literal
from schedlens.output.leftover import TemporaryFolder
from schedlens.timeline import preparation
from schedlens.timeline.prepared import Timelines

# Memory of the timeline's database; more is spilled to a temporary folder.
_MEMORY = "384MiB"


def database_of(path: Path) -> Path:
    """The file of an analysis. Raises what `store.open_database` raises, for what is none."""
    store.open_database(path).close()
    return path / "analysis.duckdb" if path.is_dir() else path


@contextmanager
def opened(database: Path) -> Iterator[Timelines]:
    """The recordings of a database; their tables are kept next to it, or until the block ends.

    Another server of the same session, or a folder that cannot be written, is not an error.
    """
    con = duckdb.connect()
    with TemporaryFolder() as work:
        try:
            con.execute(f"SET memory_limit = '{_MEMORY}'")
            con.execute(f"SET temp_directory = {literal(str(work))}")
            con.execute("SET preserve_insertion_order = false")
            store.set_for_answers(con)
            con.execute(f"ATTACH {literal(str(database))} AS analysis (READ_ONLY)")
            con.execute("USE analysis")
            stamp = preparation.stamp_of(database)
            yield _kept(con, database.with_name(preparation.FILE), work / preparation.FILE, stamp)
        except duckdb.Error as error:
            raise DatabaseError(str(error).splitlines()[0]) from None
        finally:
            con.close()


def _kept(con: duckdb.DuckDBPyConnection, file: Path, aside: Path, stamp: str) -> Timelines:
    try:
        return Timelines(con, file, stamp)
    except duckdb.Error:
        # Damaged, of another version of DuckDB, in use, or read-only.
        with contextlib.suppress(duckdb.Error):
            con.execute("DETACH tiles")
        return Timelines(con, aside, stamp)
