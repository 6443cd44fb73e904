"""Makes a folder of base tables from a text of xperf's dumper or a CSV of wpaexporter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from schedlens import __version__, _decoders
from schedlens.errors import NothingToReadError
from schedlens.load.arrow_folder import layout, table_file
from schedlens.load.text_export import switch_rows
from schedlens.output import whole_file
from schedlens.output.leftover import TemporaryFolder

_NS_PER_S = 1_000_000_000
# FILETIME of 1970, and ns in one of its ticks.
_FILETIME_1970, _FILETIME_NS = 116_444_736_000_000_000, 100
_BATCH_ROWS = 1 << 16


@contextmanager
def made(
    path: Path, source: str, progress: Callable[[float], None] = lambda share: None
) -> Iterator[Path]:
    """The folder, until the block ends; `source` is a value of `trace.source`.

    docs/text-exports.md says what each table is made from. Raises `NothingToReadError` for a text
    without context switches, and what the reader raises.
    """
    with TemporaryFolder() as folder:
        # On disk, so that memory does not grow with the text.
        rows = folder / "rows.duckdb"
        with duckdb.connect(str(rows), config={"temp_directory": str(folder / "spill")}) as con:
            con.execute("SET enable_progress_bar = false")
            stated = _read(con, path, progress)
            _write(con, path, source, stated, folder)
        rows.unlink()
        yield folder


def _read(
    con: duckdb.DuckDBPyConnection, path: Path, progress: Callable[[float], None]
) -> dict[str, Any]:
    """Reads the text into the table `e`; returns what it stated."""
    rows = _decoders.WindowsRows(str(path))
    size = max(1, path.stat().st_size)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            progress(min(1.0, rows.read() / size))
            yield batch

    con.register("text", pa.RecordBatchReader.from_batches(rows.schema, batches()))
    con.execute("CREATE TABLE e AS FROM text").fetchall()
    con.unregister("text")
    stated: dict[str, Any] = json.loads(rows.summary())
    return stated


def _write(
    con: duckdb.DuckDBPyConnection, path: Path, source: str, stated: dict[str, Any], folder: Path
) -> None:
    schemas = _decoders.schemas()
    unread = [
        [f"line {found['line']}", found["what"], found["count"]] for found in stated["problems"]
    ]
    con.execute("CREATE TABLE unread (place VARCHAR, what VARCHAR, count BIGINT)")
    if unread:
        con.executemany("INSERT INTO unread VALUES (?, ?, ?)", unread)
    for name, value in (
        ("reliable", stated["reliable_from"]),
        ("events_lost", stated["events_lost"]),
    ):
        con.execute(f"CREATE MACRO {name}() AS {'NULL' if value is None else int(value)}::BIGINT")
    for statement in con.extract_statements(switch_rows.PREPARE):
        con.execute(statement).fetchall()
    base, last, switches = con.execute(
        "SELECT base(), last(), (SELECT count(*) FROM sw)"
    ).fetchall()[0]
    if not switches:
        why = f" ({unread[0][1]}: {unread[0][0]})" if unread else ""
        raise NothingToReadError(
            f"{path}: contains no context switches{why}: record CSWITCH and DISPATCHER, and export "
            "again (docs/text-exports.md)"
        )
    counts: dict[str, int] = {}
    for name, sql in switch_rows.TABLES.items():
        if name == "wakeup" and not stated["has_ready"]:
            continue
        schema = schemas[name]
        found = con.sql(sql).to_arrow_reader(_BATCH_ROWS)
        counts[name] = table_file.write(folder / f"{name}{layout.SUFFIX}", schema, found)
    start = stated["start"]
    facts = {
        "path": str(path),
        "os": stated["os"],
        "clock_name": "trace start",
        "start_clock": base,
        "clock_hz": _NS_PER_S,
        "start_time_utc_ns": start and (start - _FILETIME_1970) * _FILETIME_NS + base,
        "first_ns": 0,
        "duration_ns": last - base,
        "events_lost": stated["events_lost"],
        "buffers_lost": stated["buffers_lost"],
    }
    manifest = {
        "format": layout.FORMAT,
        "format_version": layout.VERSION,
        "source": source,
        "written_by": f"schedlens {__version__}, {source}",
        "trace": {name: value for name, value in facts.items() if value is not None},
        "tables": counts,
    }
    whole_file.write_json(folder / layout.MANIFEST, manifest)
