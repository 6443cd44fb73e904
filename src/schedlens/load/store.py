"""Writes the database, atomically and readable by released DuckDB shells."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import duckdb

from schedlens import _decoders
from schedlens.errors import (
    DatabaseError,
    NoSpaceError,
    NothingToReadError,
    SchedlensError,
    SizeError,
)
from schedlens.load import schema
from schedlens.machine import memory
from schedlens.output import leftover, whole_file

# The newest format that DuckDB 1.5 shells can read; they cannot read DuckDB 2's default.
STORAGE_VERSION = "v1.5.0"


# Most columns are numbers that change from row to row. DuckDB chooses this for them anyway, after
# trying others. Columns that hardly change specify their own, and texts cannot use this.
_COMPRESSION = "bitpacking"

FILE_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "storage_compatibility_version": STORAGE_VERSION,
    "force_compression": _COMPRESSION,
}

# DuckDB uses a nested loop for an ASOF join if it expects few rows on the left, and it expects few
# even if there are millions. What a query joins last is hard to foresee.
_ANSWERING = "SET asof_loop_join_threshold = 0"

# Where each database says that it is one.
_MAGIC_AT, _MAGIC = 8, b"DUCK"

# A checkpoint also writes all views again, which takes longer than the rows of a small recording.
_CHECKPOINT_BYTES = 32 << 20

# DuckDB takes this share of the memory of the machine or of its cgroup, if nothing else is set.
_DUCKDB_SHARE = 0.8
# What the decoder, Python, and Arrow use next to the database: buffered batches and row groups.
_BESIDES = 400 << 20
# DuckDB cannot sort or join with less.
LEAST_MEMORY = _BESIDES + (200 << 20)
# By default: this, and for each byte of a recording a part of one. More makes few queries faster,
# and a studio analyzes on machines that have other work.
_USUAL_MEMORY = 1750 << 20
_BYTES_READ_PER_BYTE = 6


@contextmanager
def create(
    path: Path,
    *,
    max_memory: int | None = None,
    temp_folder: Path | None = None,
    place: Callable[[Path], None] | None = None,
    to_read: int = 0,
    threads: int | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A new database with all tables; it gets its name only when the block succeeds.

    `max_memory` is what this process may use, in bytes; by default 1.75 GiB and a sixth of
    `to_read`, the bytes of the recordings, but at most half of what is installed. Queries that need
    more spill to `temp_folder`, by default next to the database. `place` makes an empty database
    that already has the tables. `threads` answer the queries, by default one for each CPU. A shell
    that has the old file open keeps it.
    Raises `DatabaseError`, `NoSpaceError` or `SizeError`.
    """
    allowed = LEAST_MEMORY if max_memory is None else max_memory
    if allowed < LEAST_MEMORY:
        raise SizeError(f"--max-memory must be at least {LEAST_MEMORY >> 20}M")
    aside = leftover.unfinished(path)
    leftover.remove_unfinished(path)
    try:
        remove(aside)
        if place is not None:
            place(aside)
        con = duckdb.connect(
            str(aside),
            config={
                **FILE_CONFIG,
                # The file has no name yet that anybody would look for: it is flushed once, below.
                "fsync_mode": "NONE",
                **({"temp_directory": str(temp_folder)} if temp_folder else {}),
                **({"threads": threads} if threads else {}),
            },
        )
        if max_memory is None:
            usual = _USUAL_MEMORY + to_read // _BYTES_READ_PER_BYTE
            allowed = max(LEAST_MEMORY, min(usual, installed_memory(con) // 2))
        con.execute(f"SET memory_limit = '{(allowed - _BESIDES) >> 10}KiB'")
    except (OSError, duckdb.Error) as error:
        _discard(aside)
        raise _failure(path, aside, allowed, error) from None
    try:
        con.execute(_ANSWERING)
        if place is None:
            schema.create(con)
        yield con
        con.execute("CHECKPOINT")
        con.close()
        whole_file.flush(aside)
        aside.replace(path)
    except (OSError, duckdb.Error) as error:
        raise _failure(path, aside, allowed, error) from None
    finally:
        con.close()
        _discard(aside)


@contextmanager
def written_behind(con: duckdb.DuckDBPyConnection, path: Path) -> Iterator[None]:
    """While the block runs, writes what a database contains so far that `create` makes at `path`.

    `create` then waits for less at its end. Raises what `create` raises.
    """
    if os.name == "nt":
        # DuckDB opens its file for itself alone.
        yield
        return
    aside = leftover.unfinished(path)
    try:
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(_write_behind, con, aside)
            yield
    except duckdb.Error:
        # A checkpoint that fails closes the database: its own error says why.
        failed = written.exception()
        if isinstance(failed, (OSError, duckdb.Error)):
            raise _failure(path, aside, 0, failed) from None
        raise
    try:
        # The disk reports an error to whoever waits for it first.
        written.result()
    except (OSError, duckdb.Error) as error:
        raise _failure(path, aside, 0, error) from None


def _write_behind(con: duckdb.DuckDBPyConnection, file: Path) -> None:
    if file.stat().st_size >= _CHECKPOINT_BYTES:
        # It does not wait for a transaction that writes meanwhile.
        with con.cursor() as own, contextlib.suppress(duckdb.TransactionException):
            own.execute("CHECKPOINT")
    whole_file.flush(file)


def _discard(aside: Path) -> None:
    # On a read-only disk this fails as well, and must not hide why the file was not written.
    with contextlib.suppress(OSError):
        remove(aside)


def _failure(
    path: Path, aside: Path, allowed: int, error: OSError | duckdb.Error
) -> SchedlensError:
    """The error to raise for a database that could not be written as `aside`."""
    text = str(error)
    if isinstance(error, OSError) and error.errno != errno.ENOSPC:
        named = Path(error.filename) if error.filename else path
        return whole_file.cannot_write(path if named == aside else named, error)
    # DuckDB reports a full disk for spilled data in the same way as a full memory.
    full = "No space left" in text or "max_temp_directory_size" in text
    if full and isinstance(error, duckdb.OutOfMemoryException):
        return NoSpaceError(
            f"cannot analyze {path}: no space left for temporary files; choose another place "
            "with --temp-folder. An existing file is unchanged"
        )
    if full:
        return NoSpaceError(
            f"cannot write {path}: no space left on its disk; free some, or choose another "
            "place with -o. An existing file is unchanged"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return DatabaseError(
            f"cannot analyze {path}: loading needs more than {allowed >> 20} MiB; allow more with "
            "--max-memory. An existing file is unchanged"
        )
    return DatabaseError(
        f"cannot write {path}: {_first_line(error)}; choose another place with -o. An existing "
        "file is unchanged"
    )


def installed_memory(con: duckdb.DuckDBPyConnection | None = None) -> int:
    """The memory of this machine in bytes, or less where a cgroup limits it.

    `con` is a database whose limit has not been set; without it, one is opened.
    """
    if con is None:
        with duckdb.connect(":memory:") as own:
            return installed_memory(own)
    limit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    return int(memory.size(limit) / _DUCKDB_SHARE)


def remove(path: Path) -> None:
    """Deletes an unwanted database with its log."""
    for file in (path, path.with_name(path.name + ".wal")):
        file.unlink(missing_ok=True)


def open_database(path: Path) -> duckdb.DuckDBPyConnection:
    """Opens the database at `path`, or in the session folder `path`, read-only."""
    file = path / "analysis.duckdb" if path.is_dir() else path
    if not path.exists():
        raise NothingToReadError(
            f"{path} does not exist: name a session folder, or an analysis.duckdb from `analyze`"
        )
    if not file.exists():
        raise NothingToReadError(f"{file} does not exist: create it with `analyze {path}`")
    try:
        con = duckdb.connect(str(file), read_only=True)
    except duckdb.Error as error:
        if not _is_database(file):
            command = "`analyze` on its recordings again" if path.is_dir() else f"`analyze {path}`"
            raise DatabaseError(
                f"{file} is not an analyzed session: run {command}, and name the folder it wrote"
            ) from None
        raise DatabaseError(
            f"cannot open {file}: {_first_line(error)} Name a folder that `analyze` wrote, or the "
            "analysis.duckdb in it"
        ) from None
    try:
        _check_version(con, file)
    except BaseException:
        con.close()
        raise
    # Not in the configuration, which must be the same for all connections to this file.
    con.execute(_ANSWERING)
    return con


def _is_database(file: Path) -> bool:
    """Whether it begins as a database of DuckDB does; also if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_MAGIC_AT + len(_MAGIC)).endswith(_MAGIC)
    except OSError:
        return True


def set_for_answers(con: duckdb.DuckDBPyConnection) -> None:
    """Sets a connection that was opened elsewhere as `open_database` does."""
    con.execute(_ANSWERING)


def _check_version(con: duckdb.DuckDBPyConnection, file: Path) -> None:
    """Raises `DatabaseError` for a database of another program or of another version."""
    again = f"run `analyze` on its recordings again, into {file.parent} or elsewhere with -o"
    try:
        rows = con.execute("SELECT DISTINCT schema_version, tool_version FROM trace").fetchall()
    except duckdb.Error:
        raise DatabaseError(f"{file} is no analysis of schedlens: {again}") from None
    for version, tool in rows:
        if version != _decoders.SCHEMA_VERSION:
            raise DatabaseError(
                f"{file} has schema version {version} (schedlens {tool}), but this version reads "
                f"{_decoders.SCHEMA_VERSION}: {again}"
            )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
