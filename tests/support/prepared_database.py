"""Empty in-memory databases with all tables and queries."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import duckdb

from schedlens.ask import blank_database
from schedlens.load.schema import literal

# More threads have no work there, and cost a third of the time.
FOR_FEW_ROWS: dict[str, str | bool | int | float | list[str]] = {"threads": 1}


@cache
def _original() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="schedlens-original-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "original.duckdb"
    blank_database.place(file)
    return file


def prepare(con: duckdb.DuckDBPyConnection) -> None:
    """Fills an empty in-memory database as `create_schema` and `install` do.

    They bind every query, which takes seconds; a copy takes less than a tenth of one.
    """
    con.execute(f"ATTACH {literal(str(_original()))} AS original (READ_ONLY)")
    con.execute("COPY FROM DATABASE original TO memory")
    con.execute("DETACH original")
