"""CPUs whose records begin late or end early without a sign of loss in the file.

A perf.data does not number its records: if the first or last records of a CPU are missing, it looks
as if the CPU had been quiet. Wakeups recorded on other CPUs can prove that it was not. The kernel
writes the CPU that the thread ran on last into each `sched_waking`, and wakes a thread only once
until it runs again. So a thread ran unseen if it is woken

- twice after one switch-out, without being switched in, or
- on another CPU than the one that it left, without having been moved.

If that happened on a CPU before its first record, the recorder did not start on all CPUs at once,
and each CPU is unknown up to its first record; likewise behind the last records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# Recorders start and stop on one CPU after another.
_STAGGER_NS = 1_000_000

_QUIET = """
CREATE OR REPLACE TEMP TABLE quiet_edge AS
WITH
  record AS (
    SELECT cpu, ts FROM context_switch WHERE trace_id = $trace_id
    UNION ALL SELECT cpu, ts FROM wakeup WHERE trace_id = $trace_id
    UNION ALL SELECT cpu, ts FROM migration WHERE trace_id = $trace_id
    UNION ALL SELECT cpu, ts FROM cpu_idle WHERE trace_id = $trace_id AND ts IS NOT NULL
    UNION ALL SELECT cpu, ts FROM interrupt_slice WHERE trace_id = $trace_id
    UNION ALL SELECT cpu, ts + dur FROM interrupt_slice WHERE trace_id = $trace_id
  ),
  edge AS (SELECT cpu, min(ts) AS first_ns, max(ts) AS last_ns FROM record GROUP BY cpu),
  whole AS (
    SELECT first_ns AS begin_ns, duration_ns AS end_ns FROM trace WHERE trace_id = $trace_id
  )
SELECT cpu, 'late_start' AS sign, begin_ns AS start_ns, least(first_ns, end_ns) AS end_ns
FROM edge, whole
WHERE first_ns > begin_ns + $stagger_ns
UNION ALL
SELECT cpu, 'early_end', greatest(last_ns, begin_ns), end_ns
FROM edge, whole
WHERE last_ns < end_ns - $stagger_ns
UNION ALL
SELECT DISTINCT cpu.cpu, 'late_start', begin_ns, end_ns
FROM cpu, whole
WHERE trace_id = $trace_id AND online IS NOT false AND cpu.cpu NOT IN (SELECT cpu FROM edge)
  AND NOT EXISTS (
    FROM loss
    WHERE loss.trace_id = $trace_id AND loss.cpu = cpu.cpu AND signalled_by = 'not_recorded'
  )
"""

# Threads that a waking says ran on a CPU before its first record or after its last.
_SUSPECTS = """
CREATE OR REPLACE TEMP TABLE suspect AS
SELECT DISTINCT utid
FROM wakeup
JOIN quiet_edge ON quiet_edge.cpu = wakeup.prev_cpu
WHERE trace_id = $trace_id
  AND kind = 'waking'
  AND utid IS NOT NULL
  AND CASE sign WHEN 'early_end' THEN wakeup.ts > start_ns ELSE true END
"""

# `period` numbers the times between two switches of a thread. At one time, a thread leaves its CPU
# before it is woken, and is woken before it is moved and switched in.
_PROVEN = """
CREATE OR REPLACE TEMP TABLE proven_edge AS
WITH
  -- Read twice rather than kept: few of millions of switches are near an edge.
  switch AS NOT MATERIALIZED (
    SELECT prev_utid AS utid, ts, 0 AS place, 'out' AS what, cpu
    FROM context_switch
    WHERE trace_id = $trace_id AND prev_utid IN (FROM suspect)
    UNION ALL
    SELECT next_utid, ts, 3, 'in', cpu
    FROM context_switch
    WHERE trace_id = $trace_id AND next_utid IN (FROM suspect)
  ),
  edges AS (
    SELECT
      coalesce(max(end_ns) FILTER (WHERE sign = 'late_start'), -(1::BIGINT << 62)) AS late_until_ns,
      coalesce(min(start_ns) FILTER (WHERE sign = 'early_end'), 1::BIGINT << 62) AS early_from_ns,
    FROM quiet_edge
  ),
  -- Only waits that reach into an edge can prove something: up to the first switch behind the late
  -- starts, and from the last one before the early ends.
  reach AS (
    SELECT
      utid,
      min(ts) FILTER (WHERE ts > late_until_ns) AS until_ns,
      max(ts) FILTER (WHERE ts < early_from_ns) AS from_ns,
    FROM switch, edges
    GROUP BY utid
  ),
  record AS (
    SELECT event.*
    FROM (
      FROM switch
      UNION ALL
      SELECT utid, ts, 1, 'waking', prev_cpu
      FROM wakeup
      WHERE trace_id = $trace_id AND kind = 'waking' AND utid IN (FROM suspect)
      UNION ALL
      SELECT utid, ts, 2, 'moved', dest_cpu
      FROM migration
      WHERE trace_id = $trace_id AND utid IN (FROM suspect)
    ) AS event
    LEFT JOIN reach USING (utid)
    WHERE coalesce(ts <= until_ns OR ts >= from_ns, true)
  ),
  -- Numbered by rank and found by ASOF: a running count over millions of records takes minutes.
  switched AS (
    SELECT
      *,
      row_number() OVER (PARTITION BY utid ORDER BY ts, place) AS period,
      4 * ts + place AS moment,
    FROM record
    WHERE what IN ('in', 'out')
  ),
  numbered AS (
    FROM switched
    UNION ALL BY NAME
    SELECT other.*, coalesce(switched.period, 0) AS period
    FROM (SELECT *, 4 * ts + place AS moment FROM record WHERE what NOT IN ('in', 'out')) AS other
    ASOF LEFT JOIN switched
      ON switched.utid = other.utid AND other.moment >= switched.moment
  ),
  waiting AS (
    SELECT
      utid,
      min(ts) FILTER (WHERE what = 'out') AS left_ns,
      min(cpu) FILTER (WHERE what = 'out') AS left_cpu,
      min(ts) FILTER (WHERE what = 'waking') AS woken_ns,
      arg_min(cpu, ts) FILTER (WHERE what = 'waking') AS woken_cpu,
      max(ts) FILTER (WHERE what = 'waking') AS again_ns,
      arg_max(cpu, ts) FILTER (WHERE what = 'waking') AS again_cpu,
      min(ts) FILTER (WHERE what = 'moved') AS moved_ns,
    FROM numbered
    GROUP BY utid, period
    HAVING woken_ns IS NOT NULL AND count(*) FILTER (WHERE what = 'in') = 0
  ),
  -- A thread that never left a CPU before may have been woken while it ran there all the time: then
  -- it is the one that leaves the CPU first.
  leaves_first AS (
    SELECT cpu, arg_min(prev_utid, ts) AS utid
    FROM context_switch
    WHERE trace_id = $trace_id AND cpu IN (SELECT cpu FROM quiet_edge)
    GROUP BY cpu
  ),
  unseen AS (
    SELECT again_cpu AS cpu, woken_ns AS start_ns, again_ns AS end_ns
    FROM waiting
    WHERE again_ns > woken_ns AND woken_ns > left_ns
    UNION ALL
    SELECT again_cpu, woken_ns, again_ns
    FROM waiting
    JOIN leaves_first ON leaves_first.cpu = again_cpu AND leaves_first.utid <> waiting.utid
    WHERE again_ns > woken_ns AND left_ns IS NULL
    UNION ALL
    SELECT woken_cpu, left_ns, woken_ns
    FROM waiting
    WHERE woken_cpu <> left_cpu AND woken_ns > left_ns AND coalesce(moved_ns > woken_ns, true)
  )
SELECT DISTINCT edge.sign
FROM unseen
JOIN quiet_edge AS edge USING (cpu)
-- The CPU would have recorded the thread's switch-in and switch-out.
WHERE CASE edge.sign WHEN 'early_end' THEN unseen.end_ns > edge.start_ns
    ELSE unseen.start_ns < edge.end_ns END
  -- A known gap of that CPU explains it.
  AND NOT EXISTS (
    FROM loss
    WHERE loss.trace_id = $trace_id
      AND coalesce(loss.cpu, unseen.cpu) = unseen.cpu
      AND coalesce(loss.start_ns, unseen.start_ns) <= unseen.end_ns
      AND coalesce(loss.end_ns, unseen.end_ns) >= unseen.start_ns
  )
"""

_LOSS = """
INSERT INTO loss BY NAME
SELECT $trace_id AS trace_id, cpu, start_ns, end_ns, sign AS signalled_by
FROM quiet_edge
WHERE sign IN (FROM proven_edge)
"""

_PROBLEM = """
INSERT INTO problem BY NAME
SELECT
  $trace_id AS trace_id,
  'the data' AS place,
  CASE sign
    WHEN 'late_start' THEN 'records of some CPUs begin late: unknown before them'
    ELSE 'records of some CPUs end early: unknown behind them'
  END AS what,
  count(*) AS count,
FROM quiet_edge
WHERE sign IN (FROM proven_edge)
GROUP BY sign
"""

_CUT_TILES = """
CREATE OR REPLACE TEMP TABLE edge_tile AS
SELECT
  tile.row,
  tile.cpu,
  tile.utid,
  tile.ts,
  tile.ts + tile.dur AS until_ns,
  tile.state,
  edge.start_ns,
  edge.end_ns,
FROM (
  SELECT rowid AS row, cpu, NULL AS utid, ts, dur, state
  FROM cpu_state_other
  WHERE trace_id = $trace_id AND state NOT IN ('offline', 'unknown')
  UNION ALL
  SELECT NULL, cpu, utid, ts, dur, 'thread'
  FROM sched_slice
  WHERE trace_id = $trace_id AND NOT is_idle AND dur > 0
) AS tile
JOIN quiet_edge AS edge
  ON edge.cpu = tile.cpu AND tile.ts < edge.end_ns AND tile.ts + tile.dur > edge.start_ns
WHERE edge.sign IN (FROM proven_edge)
"""

# What remains of a thread's time is in its slice.
_TILES = """
INSERT INTO cpu_state_other BY NAME
SELECT $trace_id AS trace_id, cpu, ts, start_ns - ts AS dur, state
FROM edge_tile
WHERE ts < start_ns AND state <> 'thread'
UNION ALL BY NAME
SELECT $trace_id AS trace_id, cpu, greatest(ts, start_ns) AS ts,
  overlap_ns(ts, until_ns, start_ns, end_ns) AS dur, 'unknown' AS state
FROM edge_tile
UNION ALL BY NAME
SELECT $trace_id AS trace_id, cpu, end_ns AS ts, until_ns - end_ns AS dur, state
FROM edge_tile
WHERE until_ns > end_ns AND state <> 'thread'
"""

_THREADS = """
INSERT INTO thread_state_other BY NAME
SELECT
  $trace_id AS trace_id,
  utid,
  greatest(ts, start_ns) AS ts,
  overlap_ns(ts, until_ns, start_ns, end_ns) AS dur,
  'unknown' AS state,
  true AS left_censored,
  true AS right_censored,
FROM edge_tile
WHERE state = 'thread'
"""

_LATE_SLICES = """
UPDATE sched_slice
SET
  ts = least(edge.end_ns, sched_slice.ts + dur),
  dur = greatest(0, sched_slice.ts + dur - edge.end_ns),
  left_censored = true,
  ready_ns = NULL, wait_ns = NULL, waker_utid = NULL, prev_cpu = NULL,
  end_reason = CASE WHEN NOT is_idle THEN 'unknown' END
FROM quiet_edge AS edge
WHERE sched_slice.trace_id = $trace_id
  AND edge.sign = 'late_start'
  AND edge.sign IN (FROM proven_edge)
  AND sched_slice.cpu = edge.cpu
  AND sched_slice.ts < edge.end_ns
"""

_EARLY_SLICES = """
UPDATE sched_slice
SET
  dur = greatest(0, edge.start_ns - sched_slice.ts),
  right_censored = true,
  end_reason = CASE WHEN NOT is_idle THEN 'unknown' END
FROM quiet_edge AS edge
WHERE sched_slice.trace_id = $trace_id
  AND edge.sign = 'early_end'
  AND edge.sign IN (FROM proven_edge)
  AND sched_slice.cpu = edge.cpu
  AND sched_slice.ts + dur > edge.start_ns
"""


def apply(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Marks CPUs as unknown before their first and behind their last record, if those are missing.

    Adds the rows of `loss`, which then also apply to the threads that were not running.
    """
    parameters = {"trace_id": trace_id}
    con.execute(_QUIET, {**parameters, "stagger_ns": _STAGGER_NS})
    con.execute(_SUSPECTS, parameters)
    if _has_rows(con, "suspect"):
        con.execute(_PROVEN, parameters)
        if _has_rows(con, "proven_edge"):
            _cut(con, parameters)
        con.execute("DROP TABLE proven_edge")
    for table in ("suspect", "quiet_edge"):
        con.execute(f"DROP TABLE {table}")


def _cut(con: duckdb.DuckDBPyConnection, parameters: dict[str, int]) -> None:
    con.execute(_LOSS, parameters)
    con.execute(_PROBLEM, parameters)
    con.execute(_CUT_TILES, parameters)
    con.execute("DELETE FROM cpu_state_other WHERE rowid IN (SELECT row FROM edge_tile)")
    con.execute(_TILES, parameters)
    con.execute(_THREADS, parameters)
    con.execute(_LATE_SLICES, parameters)
    con.execute(_EARLY_SLICES, parameters)
    con.execute("DROP TABLE edge_tile")


def _has_rows(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    return con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None
