"""Fills the summary tables: answers for the default window that need the whole schedule in order.

The views of the same questions read these rows where the window is the same, and otherwise compute
the answer in SQL, which takes far longer. A database without summaries therefore gives the same
answers.
"""

from __future__ import annotations

import contextlib

import duckdb

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

_WEIGHTS = """
SELECT utid, weight::INTEGER AS weight, is_unclear, coalesce(place, 0)::INTEGER AS "group"
FROM share_weight(p_trace_id := $trace_id)
LEFT JOIN (
  SELECT unnest($utids::BIGINT[]) AS utid, unnest($places::INTEGER[]) AS place
) USING (utid)
"""

# A group of threads is named by the lowest number among them.
_GROUPS = """
SELECT
  utid,
  CASE WHEN upid IS NOT NULL AND thread IS NOT NULL AND count(*) OVER pool >= $least
    THEN min(utid) OVER pool END AS pool,
  min(utid) OVER (PARTITION BY process) AS process,
FROM thread_with_process(p_trace_id := $trace_id)
WINDOW pool AS (PARTITION BY upid, regexp_replace(thread, '[0-9]+', '#', 'g'))
"""

LEAST_WORKERS = 3
"""The smallest pool in `parallel_section_sum`, and the default of every `p_least`."""

# The query finds no summary yet, and computes the answer.
_OBSTACLES = f"""
INSERT INTO ready_obstacle_sum BY NAME
SELECT
  trace_id,
  $start_ns AS start_ns,
  $end_ns AS end_ns,
  {MIN_IDLE_NS} AS min_idle_ns,
  * EXCLUDE (trace_id, process, thread, tid, unknown_ns)
FROM ready_obstacle(p_trace_id := $trace_id, p_min_idle_ns := {MIN_IDLE_NS})
"""

_TABLES = (
    "fair_share_sum", "parallel_section_sum", "concurrency_process_sum", "ready_obstacle_sum",
)  # fmt: skip


def build(con: duckdb.DuckDBPyConnection) -> None:
    """Replaces the summaries of all recordings. The views of all queries must exist."""
    for table in _TABLES:
        con.execute(f"DELETE FROM {table}")
    for trace_id, start_ns, end_ns in con.execute(
        "SELECT trace_id, start_ns, end_ns FROM analysis_span ORDER BY trace_id"
    ).fetchall():
        _summarize(con, trace_id, (start_ns, end_ns))


def _summarize(con: duckdb.DuckDBPyConnection, trace_id: int, window: tuple[int, int]) -> None:
    own = {"trace_id": trace_id}
    found = con.execute("SELECT any_value(cpus) FROM share_weight(p_trace_id := $trace_id)", own)
    (cpus,) = found.fetchall()[0]
    sharing = sharing_groups.read(con, trace_id)
    inputs = (
        (_WEIGHTS, {**own, "utids": [*sharing.of_thread], "places": [*sharing.of_thread.values()]}),
        (_GROUPS, {**own, "least": LEAST_WORKERS}),
        (_RUNNABLE, own),
    )
    with contextlib.ExitStack() as cursors:
        streams = []
        for sql, parameters in inputs:
            # A stream blocks its connection, so each one has its own cursor.
            cursor = cursors.enter_context(contextlib.closing(con.cursor()))
            streams.append(cursor.sql(sql, params=parameters).to_arrow_reader(_BATCH))
        groups = [(group.parent or 0, group.weight) for group in sharing.groups[1:]]
        summaries = _decoders.summarize(trace_id, window, (cpus, groups), *streams)
    for table, rows in summaries:
        con.from_arrow(rows).insert_into(table)
    con.execute(_OBSTACLES, {**own, "start_ns": window[0], "end_ns": window[1]})
