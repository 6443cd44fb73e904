"""Opens a lake as a database: tables of the same names, so that every query runs on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from schedlens import _decoders
from schedlens.ask import blank_database, catalog
from schedlens.ask.analysis import Database
from schedlens.errors import DatabaseError, LakeError, NothingToReadError
from schedlens.lake import change_points, checkpoint, manifest, set_aside, sketches
from schedlens.lake.checkpoint import SMALL, Known
from schedlens.lake.file_access import LakeFiles
from schedlens.lake.manifest import Entry
from schedlens.load import schema, store
from schedlens.load.schema import literal

# Queries use the position of a row in these tables, which a view does not have.
_POSITIONED = ("cpu", "affinity", "cpu_parking")


def is_lake(place: str | Path) -> bool:
    """Whether this is a URL, or a folder that contains a manifest."""
    return "://" in str(place) or (Path(place) / manifest.FOLDER).is_dir()


def opened(place: str | Path, *, is_fleet_only: bool = False) -> Database:
    """The database of a session or of a lake. Raises what `connect` and `Database` raise."""
    con = connect(place, is_fleet_only=is_fleet_only) if is_lake(place) else None
    return Database(Path(place), con)


def connect(
    place: str | Path,
    trace_ids: Collection[int] | None = None,
    *,
    is_fleet_only: bool = False,
) -> duckdb.DuckDBPyConnection:
    """A database in memory whose tables are those of all recordings of a lake, or of some.

    It also has the tables of queries/schema/lake.sql and the queries of queries/fleet/. The
    recordings are those that were visible when it was opened. With `is_fleet_only`, tables of
    records and states are empty, which is all that the queries of queries/fleet/ need. Raises
    `LakeError`, `NothingToReadError`, or `DatabaseError` for recordings of another version.
    """
    files = LakeFiles(place)
    lake = checkpoint.known(files)
    if not lake.entries:
        raise NothingToReadError(
            f"{place} contains no recordings: write some with `analyze PATH --lake {place}`"
        )
    if trace_ids is not None:
        missing = sorted(set(trace_ids) - lake.entries.keys())
        if missing:
            raise NothingToReadError(
                f"{place} has no recording {missing[0]}: "
                f"`schedlens sql {place} fleet_recording` lists all"
            )
        # Conclusions about a whole session are with its first recording.
        chosen = {lake.entries[trace_id].session for trace_id in trace_ids} | set(trace_ids)
    else:
        chosen = set(lake.entries)
    shown = set(lake.entries) if trace_ids is None else set(trace_ids)
    _check_versions(place, [lake.entries[trace_id] for trace_id in shown])
    con = duckdb.connect()
    try:
        _prepare(con)
        files.attach(con)
        sketches.install(con)
        change_points.install(con)
        entries = [entry for trace_id, entry in lake.entries.items() if trace_id in shown]
        _fill_small(con, files, lake, chosen & lake.entries.keys(), shown)
        _fill_manifest(con, entries)
        set_aside.fill(con, files)
        if not is_fleet_only:
            _add_views(con, files, entries)
        catalog.install(con, catalog.load_fleet())
    except duckdb.Error as error:
        con.close()
        raise LakeError(
            f"cannot read the lake {place}: {str(error).splitlines()[0]}; recordings may have been "
            "removed meanwhile: try again"
        ) from None
    except BaseException:
        con.close()
        raise
    return con


def _check_versions(place: str | Path, entries: list[Entry]) -> None:
    for entry in entries:
        if entry.schema_version != _decoders.SCHEMA_VERSION:
            raise DatabaseError(
                f"{entry.label} ({entry.trace_id}) in {place} has schema version "
                f"{entry.schema_version} (schedlens {entry.tool_version}), but this version reads "
                f"{_decoders.SCHEMA_VERSION}: analyze it again with --lake"
            )


def _prepare(con: duckdb.DuckDBPyConnection) -> None:
    """All tables, macros and views, and the tables that only a lake has."""
    folder = Path(tempfile.mkdtemp(prefix="schedlens-lake-"))
    try:
        blank = folder / "blank.duckdb"
        blank_database.place(blank)
        con.execute(f"ATTACH {literal(str(blank))} AS blank (READ_ONLY)")
        con.execute("COPY FROM DATABASE blank TO memory")
        con.execute("DETACH blank")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    store.set_for_answers(con)
    schema.create(con, [schema.lake_file()])


def _fill_small(
    con: duckdb.DuckDBPyConnection,
    files: LakeFiles,
    lake: Known,
    owners: set[int],
    shown: set[int],
) -> None:
    con.execute("CREATE TEMP TABLE shown (trace_id BIGINT)")
    chosen = pa.table({"trace_id": pa.array(sorted(shown), pa.int64())})  # noqa: F841
    con.execute("INSERT INTO shown FROM chosen")
    of_shown = "(trace_id IS NULL OR trace_id IN (FROM shown))"
    for table in SMALL:
        sql = checkpoint.rows_of(files, lake, table, owners)
        if sql is None:
            continue
        columns = ", ".join(_columns(con, table))
        if table == "finding":
            both = ", ".join(_columns(con, "lake_finding"))
            con.execute(f"CREATE TEMP TABLE found AS FROM ({sql}) WHERE {of_shown}")
            con.execute(f"INSERT INTO lake_finding SELECT {both} FROM found")
            # Numbers count from 1 in each session, and have to be unique here.
            con.execute(
                f"INSERT INTO finding SELECT {columns} FROM (SELECT * REPLACE ("
                "row_number() OVER (ORDER BY owner, finding_id)::INTEGER AS finding_id) FROM found)"
                if len(shown) > 1
                else f"INSERT INTO finding SELECT {columns} FROM found ORDER BY finding_id"
            )
            con.execute("DROP TABLE found")
            continue
        con.execute(f"INSERT INTO {table} SELECT {columns} FROM ({sql}) WHERE {of_shown}")
    con.execute("DROP TABLE shown")


def _columns(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    return [f'"{row[0]}"' for row in con.execute(f"DESCRIBE {table}").fetchall()]


def _fill_manifest(con: duckdb.DuckDBPyConnection, entries: list[Entry]) -> None:
    rows = [
        {
            **{name: getattr(entry, name) for name in _OF_ENTRY},
            **{name: entry.facts.get(name) for name in _OF_FACTS},
            "source": entry.sources[0][0] if entry.sources else None,
            "lake_bytes": sum(part.size for part in entry.tables.values()),
            "rows": sum(part.rows for part in entry.tables.values()),
        }
        for entry in entries
    ]
    names = _columns(con, "manifest")
    incoming = pa.Table.from_pylist(rows)  # noqa: F841
    con.execute(f"INSERT INTO manifest BY NAME SELECT {', '.join(names)} FROM incoming")


_OF_ENTRY = (
    "trace_id", "label", "machine", "build", "date", "session", "is_raw", "source_bytes", "sha256",
    "revision", "tool_version", "written_utc",
)  # fmt: skip
_OF_FACTS = ("start_time_utc", "cpu_model", "os", "cpus", "cores", "duration_ns")


def _add_views(con: duckdb.DuckDBPyConnection, files: LakeFiles, entries: list[Entry]) -> None:
    """Replaces each table that has rows in the lake by a view of its files."""
    comments: dict[str, list[tuple[str, Any]]] = {}
    for table, column, comment in con.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal "
        "AND schema_name = 'main' ORDER BY table_name, column_index"
    ).fetchall():
        comments.setdefault(table, []).append((column, comment))
    tables = {table for entry in entries for table in entry.tables} - set(SMALL)
    for table in sorted(tables & comments.keys()):
        keys = [entry.key(table) for entry in entries if table in entry.tables]
        listed = ", ".join(literal(files.location(key)) for key in keys)
        columns = ", ".join(f'"{column}"' for column, _ in comments[table])
        source = f"read_parquet([{listed}], {_HIVE})"
        if table in _POSITIONED:
            con.execute(f"INSERT INTO {table} SELECT {columns} FROM {source}")
            continue
        con.execute(f"DROP TABLE {table}")
        con.execute(f"CREATE VIEW {table} AS SELECT {columns} FROM {source}")
        for column, comment in comments[table]:
            if comment is not None:
                con.execute(f'COMMENT ON COLUMN {table}."{column}" IS {literal(comment)}')


# DuckDB leaves out files by these parts of their names before it opens any.
_HIVE = (
    "hive_partitioning = true, hive_types = "
    "{'machine': VARCHAR, 'build': VARCHAR, 'date': VARCHAR, 'trace_id': BIGINT}"
)
