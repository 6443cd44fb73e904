"""A recording in the database as a folder of tables, as an exporter would write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.ipc

from schedlens.load.arrow_folder import layout

# Base tables of a recording. Session tables come from the session, `trace` from the manifest.
TABLES = (
    "cpu", "machine_setting", "process", "thread", "thread_name", "affinity", "context_switch",
    "wakeup", "migration", "priority_change", "affinity_change", "ideal_cpu_change", "qos_change",
    "sched_yield", "wait_event", "interrupt_slice", "cpu_idle", "cpu_frequency", "cpu_parking",
    "counter_sample", "frame", "mark", "loss", "problem", "record_count",
)  # fmt: skip
NEEDED = ("cpu", "thread", "context_switch")
# Tables whose rows are in time order.
IN_TIME = (
    "context_switch", "wakeup", "migration", "sched_yield", "interrupt_slice", "counter_sample",
)  # fmt: skip

# What the state machine and the store add to the decoded rows, and would add again.
_ADDED = {
    "loss": "end_ns IS NULL OR signalled_by NOT IN ('chain_break', 'stream_end', 'silent_cpu')",
    "problem": "place <> 'states'",
    "affinity": "source <> 'kernel_thread'",
}
_ORDER = {
    "context_switch": "ts, cpu, seq",
    "wakeup": "ts, cpu, seq",
    "migration": "ts, cpu, seq",
    "sched_yield": "ts, cpu, seq",
    "interrupt_slice": "ts, cpu, seq",
    "counter_sample": "ts, cpu, counter",
}


def write_table(folder: Path, table: str, rows: pa.Table, batch_rows: int = 1000) -> None:
    """One file of the folder."""
    with pa.ipc.new_file(folder / f"{table}.arrow", rows.schema) as writer:
        writer.write_table(rows, max_chunksize=batch_rows)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """`tables.json`."""
    (folder / layout.MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, Any]:
    """`tables.json` as an object."""
    found: dict[str, Any] = json.loads((folder / layout.MANIFEST).read_text("utf-8"))
    return found


def export(
    con: duckdb.DuckDBPyConnection, folder: Path, trace_id: int = 1, batch_rows: int = 1000
) -> Path:
    """Writes the decoded rows of one recording; optional tables without rows are omitted."""
    folder.mkdir(parents=True)
    counts = {}
    for table in TABLES:
        rows = con.sql(
            f"FROM {table} WHERE trace_id = {trace_id} AND ({_ADDED.get(table, 'true')}) "
            f"ORDER BY {_ORDER.get(table, 'ALL')}"
        ).to_arrow_table()
        if rows.num_rows or table in NEEDED:
            write_table(folder, table, rows, batch_rows)
            counts[table] = rows.num_rows
    [trace] = (
        con.sql(
            "SELECT source, path, host, os, cpu_model, clock_name, start_clock, clock_hz, "
            "epoch_ns(start_time_utc) AS start_time_utc_ns, first_ns, duration_ns, events_lost, "
            f"buffers_lost FROM trace WHERE trace_id = {trace_id}"
        )
        .to_arrow_table()
        .to_pylist()
    )
    source = trace.pop("source")
    write_manifest(
        folder,
        {
            "format": "schedlens-tables",
            "format_version": 1,
            "source": source,
            "written_by": "a test",
            "trace": trace,
            "tables": counts,
        },
    )
    return folder
