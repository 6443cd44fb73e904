"""Offline CPUs in the derived tables.

A CPU is offline from its offline record to the next online record or its next switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# A CPU's offline periods, unless a switch contradicts them.
_OFFLINE = """
CREATE OR REPLACE TEMP TABLE offline_span AS
WITH
  whole AS (
    SELECT first_ns, duration_ns AS end_ns
    FROM trace
    WHERE trace_id = $trace_id
  ),
  version AS (
    SELECT
      cpu,
      online,
      greatest(coalesce(valid_from_ns, first_ns), first_ns) AS start_ns,
      lead(valid_from_ns) OVER (PARTITION BY cpu ORDER BY valid_from_ns NULLS FIRST) AS next_ns,
      end_ns,
    FROM cpu, whole
    WHERE trace_id = $trace_id
  ),
  span AS (
    SELECT cpu, start_ns, least(coalesce(next_ns, end_ns), end_ns) AS end_ns
    FROM version
    WHERE online = false
  ),
  switch AS (SELECT cpu, ts FROM context_switch WHERE trace_id = $trace_id)
SELECT
  span.cpu,
  span.start_ns,
  least(span.end_ns, coalesce(min(switch.ts), span.end_ns)) AS end_ns,
FROM span
LEFT JOIN switch
  ON switch.cpu = span.cpu AND switch.ts > span.start_ns AND switch.ts < span.end_ns
GROUP BY span.cpu, span.start_ns, span.end_ns
"""

_CUT_TILES = """
CREATE OR REPLACE TEMP TABLE offline_tile AS
SELECT
  tile.rowid AS row,
  tile.cpu,
  tile.ts,
  tile.ts + tile.dur AS end_ns,
  tile.state,
  tile.utid,
  span.start_ns AS off_ns,
  span.end_ns AS on_ns,
FROM cpu_state AS tile
JOIN offline_span AS span
  ON span.cpu = tile.cpu AND tile.ts < span.end_ns AND tile.ts + tile.dur > span.start_ns
WHERE tile.trace_id = $trace_id AND tile.state <> 'offline'
"""

# What ran before the CPU went offline is known; which thread runs when it returns is not.
_OFFLINE_TILES = """
INSERT INTO cpu_state BY NAME
SELECT $trace_id AS trace_id, cpu, ts, min(off_ns) - ts AS dur, state, utid
FROM offline_tile
GROUP BY cpu, ts, state, utid
HAVING min(off_ns) > ts
UNION ALL BY NAME
SELECT $trace_id AS trace_id, cpu, greatest(ts, off_ns) AS ts,
  overlap_ns(ts, end_ns, off_ns, on_ns) AS dur, 'offline' AS state, NULL::BIGINT AS utid
FROM offline_tile
UNION ALL BY NAME
SELECT $trace_id AS trace_id, cpu, on_ns AS ts,
  least(
    end_ns, coalesce(lead(off_ns) OVER (PARTITION BY cpu, ts ORDER BY off_ns), end_ns)
  ) - on_ns AS dur,
  'unknown' AS state, NULL::BIGINT AS utid
FROM offline_tile
WHERE on_ns < end_ns
"""

_OFFLINE_RUNNING = """
CREATE OR REPLACE TEMP TABLE offline_running AS
SELECT state.rowid AS row, state.utid, state.ts + state.dur AS end_ns, min(span.start_ns) AS off_ns
FROM thread_state AS state
JOIN offline_span AS span
  ON span.cpu = state.cpu AND state.ts < span.end_ns AND state.ts + state.dur > span.start_ns
WHERE state.trace_id = $trace_id AND state.state = 'running'
GROUP BY state.rowid, state.utid, state.ts + state.dur
"""

_OFFLINE_SLICES = """
UPDATE sched_slice
SET
  dur = greatest(0, span.start_ns - sched_slice.ts),
  right_censored = true,
  end_reason = CASE WHEN NOT is_idle THEN 'unknown' END
FROM (SELECT cpu, start_ns, end_ns FROM offline_span ORDER BY start_ns) AS span
WHERE sched_slice.trace_id = $trace_id
  AND sched_slice.cpu = span.cpu
  AND sched_slice.ts < span.end_ns
  AND sched_slice.ts + sched_slice.dur > span.start_ns
"""


def apply(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Marks the derived rows of a recording as offline where a CPU was offline."""
    parameters = {"trace_id": trace_id}
    con.execute(_OFFLINE, parameters)
    con.execute(_CUT_TILES, parameters)
    con.execute("DELETE FROM cpu_state WHERE rowid IN (SELECT row FROM offline_tile)")
    con.execute(_OFFLINE_TILES, parameters)
    con.execute(_OFFLINE_RUNNING, parameters)
    con.execute(
        "INSERT INTO thread_state BY NAME "
        "SELECT $trace_id AS trace_id, utid, off_ns AS ts, end_ns - off_ns AS dur, "
        "'unknown' AS state, true AS left_censored, true AS right_censored "
        "FROM offline_running WHERE end_ns > off_ns",
        parameters,
    )
    con.execute(
        "UPDATE thread_state SET dur = greatest(0, running.off_ns - thread_state.ts), "
        "right_censored = true "
        "FROM offline_running AS running WHERE thread_state.rowid = running.row"
    )
    con.execute(_OFFLINE_SLICES, parameters)
    for table in ("offline_tile", "offline_running", "offline_span"):
        con.execute(f"DROP TABLE {table}")
