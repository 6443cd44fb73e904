"""The contents of a folder of tables for `schedlens inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedlens.load.arrow_folder import layout

_MOST_ROWS = 1 << 16

# A question, the table that answers it, and a column that needs at least one known value.
_QUESTIONS = (
    ("which thread ran where", "context_switch", None),
    ("why a thread left its CPU (state, priority)", "context_switch", "prev_state"),
    ("who shared a core with whom", "cpu", "core"),
    ("how long threads waited for a CPU, and who woke them", "wakeup", None),
    ("core types", "cpu", "core_type"),
    ("interrupt work on CPUs that look idle", "interrupt_slice", None),
    ("parked CPUs", "cpu_parking", None),
    ("idle states", "cpu_idle", None),
    ("frequencies", "cpu_frequency", None),
    ("cycles and instructions of each slice", "counter_sample", None),
    ("frames", "frame", None),
)


def facts(path: Path) -> dict[str, Any]:
    """The facts about a folder; reads the tables that they depend on to the end.

    Raises the same errors as `tables_folder.open_folder` and `TablesFolder.batches`.
    """
    folder = layout.open_folder(path)
    trace = folder.trace
    first, last = trace.get("first_ns"), trace.get("duration_ns")
    return {
        "format": f"folder of tables, {folder.source}, written by {folder.written_by}",
        "header": {name: trace.get(name) for name in ("path", "host", "os", "cpu_model")},
        "clock": trace.get("clock_name"),
        "cpus": len({row["cpu"] for row in _rows(folder, "cpu")}),
        "start_clock": trace.get("start_clock"),
        "duration_ns": None if first is None or last is None else last - first,
        "start_time_utc_ns": trace.get("start_time_utc_ns"),
        "records": sum(folder.rows.values()),
        "records_by_event": dict(folder.rows),
        "processes": [
            {"pid": row["pid"], "name": row.get("name")} for row in _rows(folder, "process")
        ],
        "loss": {"events": trace.get("events_lost"), "buffers": trace.get("buffers_lost")},
        "problems": [
            {name: row[name] for name in ("place", "what", "count")}
            for row in _rows(folder, "problem")
        ],
        "can_answer": [_answer(folder, *question) for question in _QUESTIONS],
    }


def _answer(
    folder: layout.TablesFolder, question: str, table: str, column: str | None
) -> dict[str, Any]:
    answerable = folder.rows.get(table, 0) > 0
    why = f"the table {table} {'is empty' if table in folder.rows else 'is not in the folder'}"
    if answerable and column is not None:
        known = (
            column in batch.schema.names and batch.column(column).null_count < batch.num_rows
            for batch in folder.batches(table, _MOST_ROWS)
        )
        answerable, why = any(known), f"{table}.{column} is always NULL"
    return {
        "question": question,
        "answerable": answerable,
        "why": None if answerable else why,
        "record_with": None,
    }


def _rows(folder: layout.TablesFolder, table: str) -> list[dict[str, Any]]:
    return [row for batch in folder.batches(table, _MOST_ROWS) for row in batch.to_pylist()]
