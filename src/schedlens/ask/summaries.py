"""Fills the summary tables: answers for the default window that need the whole schedule in order.

The views of the same questions read these rows where the window is the same, and otherwise compute
the answer in SQL, which takes far longer. A database without summaries therefore gives the same
answers.
"""

from __future__ import annotations

import contextlib

import duckdb

from schedlens import _decoders

_BATCH = 1 << 17

_RUNNABLE = """
SELECT ts, dur, utid, state = 'ready' AS is_ready
FROM thread_state
WHERE trace_id = $trace_id AND state IN ('running', 'ready')
  AND ts < $end_ns AND ts + dur > $start_ns
ORDER BY ts
"""

_WEIGHTS = """
SELECT utid, weight::INTEGER AS weight, is_unclear FROM share_weight(p_trace_id := $trace_id)
"""


def build(con: duckdb.DuckDBPyConnection) -> None:
    """Replaces the summaries of all recordings. The views of all queries must exist."""
    con.execute("DELETE FROM fair_share_sum")
    for trace_id, start_ns, end_ns in con.execute(
        "SELECT trace_id, start_ns, end_ns FROM analysis_span ORDER BY trace_id"
    ).fetchall():
        _fair_share(con, trace_id, (start_ns, end_ns))


def _fair_share(con: duckdb.DuckDBPyConnection, trace_id: int, window: tuple[int, int]) -> None:
    own = {"trace_id": trace_id}
    found = con.execute("SELECT any_value(cpus) FROM share_weight(p_trace_id := $trace_id)", own)
    (cpus,) = found.fetchall()[0]
    if cpus is None:
        return
    # A stream blocks its connection, so each one has its own cursor.
    with contextlib.closing(con.cursor()) as weights, contextlib.closing(con.cursor()) as runnable:
        spans = {**own, "start_ns": window[0], "end_ns": window[1]}
        rows = _decoders.fair_share(
            trace_id,
            window,
            cpus,
            weights.sql(_WEIGHTS, params=own).to_arrow_reader(_BATCH),
            runnable.sql(_RUNNABLE, params=spans).to_arrow_reader(_BATCH),
        )
    if rows is not None:
        con.from_arrow(rows).insert_into("fair_share_sum")
