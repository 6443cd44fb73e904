"""Offline CPUs in the derived tables.

A CPU is offline from its offline record to the next online record or its next switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_ANY_OFFLINE = "SELECT 1 FROM cpu WHERE trace_id = $trace_id AND online = false LIMIT 1"

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
  tile.row,
  tile.cpu,
  tile.ts,
  tile.ts + tile.dur AS end_ns,
  tile.state,
  span.start_ns AS off_ns,
  span.end_ns AS on_ns,
FROM (
  SELECT rowid AS row, cpu, ts, dur, state
  FROM cpu_state_other
  WHERE trace_id = $trace_id AND state <> 'offline'
  UNION ALL
  SELECT NULL, cpu, ts, dur, 'thread'
  FROM sched_slice
  WHERE trace_id = $trace_id AND NOT is_idle AND dur > 0
) AS tile
JOIN offline_span AS span
  ON span.cpu = tile.cpu AND tile.ts < span.end_ns AND tile.ts + tile.dur > span.start_ns
"""

# What ran before the CPU went offline is known, for a thread from its slice; which thread runs when
# it returns is not.
_OFFLINE_TILES = """
INSERT INTO cpu_state_other BY NAME
SELECT $trace_id AS trace_id, cpu, ts, min(off_ns) - ts AS dur, state
FROM offline_tile
WHERE state <> 'thread'
GROUP BY cpu, ts, state
HAVING min(off_ns) > ts
UNION ALL BY NAME
SELECT $trace_id AS trace_id, cpu, greatest(ts, off_ns) AS ts,
  overlap_ns(ts, end_ns, off_ns, on_ns) AS dur, 'offline' AS state
FROM offline_tile
UNION ALL BY NAME
SELECT $trace_id AS trace_id, cpu, on_ns AS ts,
  least(
    end_ns, coalesce(lead(off_ns) OVER (PARTITION BY cpu, ts ORDER BY off_ns), end_ns)
  ) - on_ns AS dur,
  'unknown' AS state
FROM offline_tile
WHERE on_ns < end_ns
"""

_CUT_SLICES = """
CREATE OR REPLACE TEMP TABLE offline_slice AS
SELECT
  slice.rowid AS row,
  slice.utid,
  slice.is_idle,
  slice.ts + slice.dur AS end_ns,
  greatest(slice.ts, min(span.start_ns)) AS off_ns,
FROM sched_slice AS slice
JOIN offline_span AS span
  ON span.cpu = slice.cpu AND slice.ts < span.end_ns AND slice.ts + slice.dur > span.start_ns
WHERE slice.trace_id = $trace_id
GROUP BY slice.rowid, slice.utid, slice.is_idle, slice.ts, slice.dur
"""

_OFFLINE_THREADS = """
INSERT INTO thread_state_other BY NAME
SELECT
  $trace_id AS trace_id,
  utid,
  off_ns AS ts,
  end_ns - off_ns AS dur,
  'unknown' AS state,
  true AS left_censored,
  true AS right_censored,
FROM offline_slice
WHERE NOT is_idle AND end_ns > off_ns
"""

_OFFLINE_SLICES = """
UPDATE sched_slice
SET
  dur = offline_slice.off_ns - sched_slice.ts,
  right_censored = true,
  end_reason = CASE WHEN NOT offline_slice.is_idle THEN 'unknown' END
FROM offline_slice
WHERE sched_slice.rowid = offline_slice.row
"""


def apply(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Marks the derived rows of a recording as offline where a CPU was offline."""
    parameters = {"trace_id": trace_id}
    if con.execute(_ANY_OFFLINE, parameters).fetchone() is None:
        return
    con.execute(_OFFLINE, parameters)
    con.execute(_CUT_TILES, parameters)
    con.execute("DELETE FROM cpu_state_other WHERE rowid IN (SELECT row FROM offline_tile)")
    con.execute(_OFFLINE_TILES, parameters)
    con.execute(_CUT_SLICES, parameters)
    con.execute(_OFFLINE_THREADS, parameters)
    con.execute(_OFFLINE_SLICES)
    for table in ("offline_tile", "offline_slice", "offline_span"):
        con.execute(f"DROP TABLE {table}")
