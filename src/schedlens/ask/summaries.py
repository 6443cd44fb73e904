"""Fills the summary tables: answers for the default window that need the whole schedule in order.

The views of the same questions read these rows where the window is the same, and otherwise compute
the answer in SQL, which takes far longer. A database without summaries therefore gives the same
answers.
"""

from __future__ import annotations

import contextlib

import duckdb
import pyarrow as pa

from schedlens import _decoders
from schedlens.load import sharing_groups
from schedlens.load.intervals import MIN_IDLE_NS

_BATCH = 1 << 17

_RUNNABLE = """
SELECT ts, dur, utid, state = 'ready' AS is_ready
FROM thread_state
WHERE trace_id = $trace_id AND state IN ('running', 'ready')
ORDER BY ts
"""

# Questions about threads are asked once for all recordings: planning them takes longer than reading
# the rows of one.
_WEIGHTS = """
SELECT trace_id, utid, weight::INTEGER AS weight, is_unclear, coalesce(place, 0)::INTEGER AS "group"
FROM summary_weight
LEFT JOIN (
  SELECT unnest($utids::BIGINT[]) AS utid, unnest($places::INTEGER[]) AS place
) USING (utid)
ORDER BY trace_id, utid
"""
_MAKE_WEIGHTS = "CREATE OR REPLACE TEMP TABLE summary_weight AS FROM share_weight"
_CPUS = "SELECT trace_id, any_value(cpus) FROM summary_weight GROUP BY trace_id"

# A group of threads is named by the lowest number among them.
_GROUPS = """
SELECT
  trace_id,
  utid,
  CASE WHEN upid IS NOT NULL AND thread IS NOT NULL AND count(*) OVER pool >= $least
    THEN min(utid) OVER pool END AS pool,
  min(utid) OVER (PARTITION BY trace_id, process) AS process,
FROM thread_with_process
WINDOW pool AS (PARTITION BY trace_id, upid, regexp_replace(thread, '[0-9]+', '#', 'g'))
ORDER BY trace_id, utid
"""

LEAST_WORKERS = 3
"""The smallest pool in `parallel_section_sum`, and the default of every `p_least`."""

# The query finds no summary yet, and computes the answer.
_OBSTACLES = f"""
INSERT INTO ready_obstacle_sum BY NAME
SELECT
  span.trace_id,
  span.start_ns,
  span.end_ns,
  {MIN_IDLE_NS} AS min_idle_ns,
  found.* EXCLUDE (trace_id, process, thread, tid, unknown_ns)
FROM ready_obstacle(p_min_idle_ns := {MIN_IDLE_NS}) AS found
JOIN analysis_span AS span USING (trace_id)
"""

_TABLES = (
    "fair_share_sum", "parallel_section_sum", "concurrency_process_sum", "ready_obstacle_sum",
)  # fmt: skip


def build(con: duckdb.DuckDBPyConnection) -> None:
    """Replaces the summaries of all recordings. The views of all queries must exist."""
    for table in _TABLES:
        con.execute(f"DELETE FROM {table}")
    con.execute(_MAKE_WEIGHTS)
    cpus = dict(con.execute(_CPUS).fetchall())
    sharing = sharing_groups.read_all(con)
    of_thread = {utid: place for one in sharing.values() for utid, place in one.of_thread.items()}
    places = {"utids": [*of_thread], "places": [*of_thread.values()]}
    weights = _ByRecording(con.sql(_WEIGHTS, params=places).to_arrow_table())
    members = _ByRecording(con.sql(_GROUPS, params={"least": LEAST_WORKERS}).to_arrow_table())
    con.execute("DROP TABLE summary_weight")
    for trace_id, start_ns, end_ns in con.execute(
        "SELECT trace_id, start_ns, end_ns FROM analysis_span ORDER BY trace_id"
    ).fetchall():
        groups = sharing[trace_id].groups[1:]
        shared = cpus.get(trace_id), [(group.parent or 0, group.weight) for group in groups]
        # A stream blocks its connection.
        with contextlib.closing(con.cursor()) as cursor:
            runnable = cursor.sql(_RUNNABLE, params={"trace_id": trace_id})
            summaries = _decoders.summarize(
                trace_id,
                (start_ns, end_ns),
                shared,
                weights.of(trace_id),
                members.of(trace_id),
                runnable.to_arrow_reader(_BATCH),
            )
        for table, rows in summaries:
            con.from_arrow(rows).insert_into(table)
    con.execute(_OBSTACLES)


class _ByRecording:
    """Rows in the order of `trace_id`, the first column, which `of` leaves out."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows.drop_columns("trace_id")
        self._place: dict[int, tuple[int, int]] = {}
        for place, trace_id in enumerate(rows.column("trace_id").to_pylist()):
            first, number = self._place.get(trace_id, (place, 0))
            self._place[trace_id] = (first, number + 1)

    def of(self, trace_id: int) -> pa.RecordBatchReader:
        """The rows of one recording."""
        return self._rows.slice(*self._place.get(trace_id, (0, 0))).to_reader()
