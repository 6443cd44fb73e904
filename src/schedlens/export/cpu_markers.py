"""The schedule as a profile for Firefox Profiler: a track per logical CPU, a marker per slice.

The marker chart gives the markers of one name a row. All slices of a CPU are called like the CPU,
so they are its lane; `chartLabel` writes the thread on each, and `searchable` fields find it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import duckdb

from schedlens.errors import NothingToReadError
from schedlens.export.stack_profiles import empty_tables, meta
from schedlens.output import whole_file

SUFFIX = "-cpus.firefox.json"

# Indexes into the categories of the profile.
_CATEGORIES = [("Running", "green"), ("Kernel thread", "blue"), ("Lost events", "grey")]
_FIELDS = (
    ("thread", "Thread", "string"), ("tid", "Thread id", "integer"),
    ("process", "Process", "string"), ("priority", "Priority", "integer"),
    ("end", "Ended by", "string"), ("ready", "Ready before", "duration"),
    ("waker", "Woken by", "string"),
)  # fmt: skip


def save(con: duckdb.DuckDBPyConnection, file: Path, trace_id: int) -> None:
    """Writes the slices of a recording, one CPU at a time; times in ms from its start.

    Raises `NothingToReadError` if it has no slices.
    """
    cpus = con.execute(
        "SELECT s.cpu, any_value(c.core_type) FROM sched_slice AS s LEFT JOIN cpu AS c "
        "ON c.trace_id = s.trace_id AND c.cpu = s.cpu WHERE s.trace_id = ? AND NOT s.is_idle "
        "GROUP BY s.cpu ORDER BY s.cpu",
        [trace_id],
    ).fetchall()
    if not cpus:
        raise NothingToReadError("this recording has no slices: no context switch was recorded")

    def written(out: BinaryIO) -> None:
        for text in _profile(con, file.name, trace_id, cpus):
            out.write(text.encode("utf-8"))

    whole_file.write(file, written)


def _profile(
    con: duckdb.DuckDBPyConnection, name: str, trace_id: int, cpus: list[tuple[int, str | None]]
) -> Iterator[str]:
    about = meta(name, _CATEGORIES) | {"markerSchema": [_schema("Slice"), _schema("Lost")]}
    yield f'{{"meta": {json.dumps(about)}, "libs": [], "threads": ['
    for number, (cpu, core_type) in enumerate(cpus):
        yield ",\n" if number else "\n"
        lane = f"CPU {cpu}" if core_type in (None, "U") else f"CPU {cpu} ({core_type})"
        head = {
            "name": lane, "processName": "CPUs", "processType": "default",
            "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0,
            "unregisterTime": None, "pausedRanges": [], "isMainThread": number == 0,
            "showMarkersInTimeline": True, "pid": "0", "tid": cpu, **empty_tables(),
            "samples": {"length": 0, "stack": [], "time": [], "weight": None,
                        "weightType": "samples"},
            "stringArray": [lane, "Lost events"],
        }  # fmt: skip
        row = con.execute(_MARKERS, {"trace_id": trace_id, "cpu": cpu}).fetchone()
        # DuckDB writes the rows: Python would need an object for each.
        yield f'{json.dumps(head)[:-1]}, "markers": {row[0] if row else "null"}}}'
    yield "\n]}\n"


def _schema(kind: str) -> dict[str, Any]:
    shown = "{marker.data.thread}" if kind == "Slice" else "Lost events"
    fields = [
        {"key": key, "label": label, "format": form, "searchable": True}
        for key, label, form in _FIELDS
    ]
    return {
        "name": kind,
        "tooltipLabel": shown,
        "tableLabel": f"{shown} {{marker.data.process}}" if kind == "Slice" else shown,
        "chartLabel": shown,
        "display": ["marker-chart", "marker-table", "timeline-overview"],
        "data": fields if kind == "Slice" else [],
    }


_MARKERS = """
WITH
  slice AS (
    SELECT
      s.ts,
      s.ts + s.dur AS until,
      0 AS name,
      CASE WHEN p.pid = 2 OR p.name = 'System' THEN 1 ELSE 0 END AS category,
      to_json({
        'type': 'Slice', 'thread': coalesce(t.name, 'thread ' || t.tid), 'tid': t.tid,
        'process': p.name, 'priority': s.priority, 'end': s.end_reason,
        'ready': s.ready_ns / 1e6, 'waker': w.name
      }) AS data,
    FROM sched_slice AS s
    JOIN thread AS t ON t.utid = s.utid
    LEFT JOIN process AS p ON p.upid = t.upid
    LEFT JOIN thread AS w ON w.utid = s.waker_utid
    WHERE s.trace_id = $trace_id AND s.cpu = $cpu AND NOT s.is_idle
  ),
  lost AS (
    SELECT ts, ts + dur AS until, 1 AS name, 2 AS category, to_json({'type': 'Lost'}) AS data
    FROM cpu_state
    WHERE trace_id = $trace_id AND cpu = $cpu AND state = 'unknown' AND dur > 0
  ),
  marker AS (FROM slice UNION ALL BY NAME FROM lost)
SELECT
  to_json({
    'length': count(*),
    'category': list(category ORDER BY ts, until),
    'data': list(data ORDER BY ts, until),
    'endTime': list(until / 1e6 ORDER BY ts, until),
    'name': list(name ORDER BY ts, until),
    -- An interval: a marker with a start and an end.
    'phase': list(1 ORDER BY ts, until),
    'startTime': list(ts / 1e6 ORDER BY ts, until)
  })::VARCHAR
FROM marker
"""
