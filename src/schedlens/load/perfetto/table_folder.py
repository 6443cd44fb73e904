"""Makes a folder of base tables from a Perfetto trace, a systrace file, or an ftrace text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from schedlens import __version__, _decoders
from schedlens.errors import NothingToReadError
from schedlens.load.arrow_folder import layout, table_file
from schedlens.load.perfetto import base_rows, engine_tables, processor
from schedlens.output import whole_file
from schedlens.output.leftover import TemporaryFolder

_NS_PER_S = 1_000_000_000


@contextmanager
def made(path: Path, progress: Callable[[float], None] = lambda share: None) -> Iterator[Path]:
    """The folder, until the block ends; `docs/perfetto.md` says what each table is made from.

    Raises `NothingToReadError` for a recording without a schedule, and what `processor.opened`
    raises.
    """
    with processor.opened(path) as found:
        tables = engine_tables.read(found, progress)
    if tables["e_sched"].num_rows == 0:
        raise NothingToReadError(
            f"{path}: contains no scheduling events: record sched_switch and sched_waking "
            "(ftrace_events of the data source linux.ftrace)"
        )
    with TemporaryFolder() as folder:
        _write(path, tables, folder)
        yield folder


def _write(path: Path, tables: dict[str, pa.Table], folder: Path) -> None:
    schemas = _decoders.schemas()
    # Beyond its memory limit DuckDB spills into the folder, which is removed with all it contains.
    with duckdb.connect(config={"temp_directory": str(folder / "spill")}) as con:
        for name, table in tables.items():
            con.register(name, table)
        for statement in con.extract_statements(base_rows.PREPARE):
            con.execute(statement).fetchall()
        counts: dict[str, int] = {}
        for name, sql in base_rows.TABLES.items():
            rows = con.sql(sql).to_arrow_table()
            if rows.num_rows == 0 and name in base_rows.ABSENT_IF_EMPTY:
                continue
            if name == "cpu":
                rows = _with_core_types(rows)
            file = folder / f"{name}{layout.SUFFIX}"
            batch = table_file.conformed(rows, schemas[name])
            counts[name] = table_file.write(file, schemas[name], [batch])
        facts = _facts(con, path)
    manifest = {
        "format": layout.FORMAT,
        "format_version": layout.VERSION,
        "source": "perfetto",
        "written_by": f"schedlens {__version__}, trace_processor",
        "trace": facts,
        "tables": counts,
    }
    whole_file.write_json(folder / layout.MANIFEST, manifest)


def _with_core_types(rows: pa.Table) -> pa.Table:
    """The CPUs with the names of their core types; NULL if the recording shows no classes."""
    classes = rows["efficiency_class"].to_pylist()
    known = all(number is not None for number in classes)
    names = _decoders.core_types(classes) if known else [None] * len(classes)
    return rows.append_column("core_type", pa.array(names, pa.string()))


def _facts(con: duckdb.DuckDBPyConnection, path: Path) -> dict[str, Any]:
    facts = {
        name: text if text is not None else number
        for name, text, number in con.execute("FROM e_fact").fetchall()
    }
    base, last = con.execute("SELECT base(), last()").fetchall()[0]
    wall = con.execute("SELECT clock_value - ts FROM e_clock").fetchall()
    models = con.execute("SELECT DISTINCT processor FROM e_cpu WHERE processor <> ''").fetchall()
    name, release = facts.get("system_name"), facts.get("system_release")
    known = {
        "path": str(path),
        "os": f"{name} {release}" if name and release else name,
        "cpu_model": models[0][0] if len(models) == 1 else None,
        "clock_name": "boottime",
        "start_clock": base,
        "clock_hz": _NS_PER_S,
        "start_time_utc_ns": wall[0][0] + base if wall else None,
        "first_ns": 0,
        "duration_ns": last - base,
    }
    return {name: value for name, value in known.items() if value is not None}
