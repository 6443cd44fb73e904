"""Answers of queries as Parquet, Arrow, or CSV files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO, Literal

import duckdb

from schedlens.errors import DatabaseError
from schedlens.load.schema import STATES, literal
from schedlens.output import whole_file

Form = Literal["parquet", "arrow", "csv"]

_ROWS = 131_072


def save(con: duckdb.DuckDBPyConnection, query: str, path: Path, form: Form) -> None:
    """Writes the rows of a SELECT to a file, batch by batch.

    `arrow` is an Arrow IPC file. Raises `DatabaseError` with DuckDB's reason, `SessionError`, or
    `NoSpaceError`, and leaves no half-written file.
    """
    if form == "arrow":
        whole_file.write(path, lambda out: _write_arrow(con, query, out))
        return
    aside = path.with_name(f"{path.name}.{os.getpid()}{whole_file.PART}")
    options = "FORMAT csv, HEADER true" if form == "csv" else "FORMAT parquet, COMPRESSION zstd"
    try:
        # Before DuckDB: it reports a folder that cannot be written as an error of its own.
        aside.touch()
        con.execute(f"COPY ({query}) TO {literal(str(aside))} ({options})").fetchall()
        aside.replace(path)
    except OSError as error:
        raise whole_file.cannot_write(path, error) from None
    except duckdb.Error as error:
        raise DatabaseError(str(error).splitlines()[0]) from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


def _write_arrow(con: duckdb.DuckDBPyConnection, query: str, out: BinaryIO) -> None:
    import pyarrow as pa

    from schedlens import _decoders

    try:
        rows = con.sql(query).to_arrow_reader(_ROWS)
        with pa.ipc.new_file(out, rows.schema) as file:
            for batch in rows:
                file.write_batch(_decoders.zero_nulls(batch))
    except duckdb.Error as error:
        raise DatabaseError(str(error).splitlines()[0]) from None


def tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    """The tables that have rows, by name; states as their views show them."""
    rows = con.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' "
        "AND table_type = 'BASE TABLE'"
    ).fetchall()
    stored = {f"{name}_other" for name in STATES}
    return [
        name
        for name in sorted({name for (name,) in rows} - stored | set(STATES))
        if con.execute(f'SELECT count(*) FROM (FROM "{name}" LIMIT 1)').fetchall()[0][0]
    ]
