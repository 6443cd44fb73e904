"""Forgets what slices say about the time before them, where a gap may have changed it.

Ready and wait times, the waker and the last CPU of a slice are NULL then, and so is why the slice
in front of it ended. `gaps` has created the tables `gap` and `gap_bin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_SLICES = """
CREATE OR REPLACE TEMP TABLE doubtful_slice AS
WITH
  entered AS (
    SELECT
      rowid AS row,
      cpu,
      ts,
      ts - coalesce(ready_ns, 0) AS ready_from_ns,
      ts - coalesce(ready_ns, 0) - coalesce(wait_ns, 0) AS wait_from_ns,
    FROM sched_slice
    WHERE trace_id = $trace_id AND (ready_ns > 0 OR wait_ns > 0)
  ),
  -- Materialized, so that only these few take part in the join with the gaps.
  near AS MATERIALIZED (
    SELECT entered.*
    FROM entered
    WHERE entered.ts > $gaps_start_ns
      AND entered.wait_from_ns < $gaps_end_ns
      AND (
        entered.ts - entered.wait_from_ns > $width_ns
        OR (entered.ts - 1) // $width_ns IN (FROM gap_bin)
      )
  )
SELECT near.row, near.cpu, near.ts, gap.end_ns > ready_from_ns AS ready_is_doubtful
FROM near
ASOF JOIN gap ON near.ts > gap.start_ns
WHERE gap.end_ns > near.wait_from_ns
"""

_FORGET_READY = """
UPDATE sched_slice
SET
  wait_ns = NULL,
  prev_cpu = NULL,
  ready_ns = CASE WHEN NOT doubtful.ready_is_doubtful THEN ready_ns END,
  waker_utid = CASE WHEN NOT doubtful.ready_is_doubtful THEN waker_utid END
FROM doubtful_slice AS doubtful
WHERE sched_slice.rowid = doubtful.row
"""

# Where a thread may have run unseen. A table, so that DuckDB knows how few these are.
_LOST = """
CREATE OR REPLACE TEMP TABLE lost_time AS
SELECT utid, ts + dur AS end_ns, (ts + dur) // $wide_ns AS bin
FROM thread_state_other
WHERE trace_id = $trace_id AND state = 'unknown' AND dur > 0
"""

# If a thread may have run in between, its last CPU is unknown too. An ASOF join sorts its right
# side: the first slice behind a time is one of its own bin or the first one of a bin. Of several
# slices that begin at one time, each may be the first.
_FORGET_CPU = """
UPDATE sched_slice
SET prev_cpu = NULL
WHERE trace_id = $trace_id AND NOT is_idle AND prev_cpu IS NOT NULL AND (utid, ts) IN (
  SELECT slice.utid, slice.ts
  FROM lost_time AS lost
  ASOF JOIN (
    SELECT utid, ts
    FROM sched_slice
    WHERE trace_id = $trace_id AND NOT is_idle
      AND (utid, ts // $wide_ns) IN (SELECT utid, bin FROM lost_time)
    UNION ALL
    SELECT utid, min(ts)
    FROM sched_slice
    WHERE trace_id = $trace_id AND NOT is_idle
    GROUP BY utid, ts // $wide_ns
  ) AS slice
    ON slice.utid = lost.utid AND slice.ts >= lost.end_ns
)
"""

# On Linux, whether the next thread was ready shows why a thread left its CPU.
_FORGET_REASONS = """
UPDATE sched_slice
SET end_reason = 'unknown'
FROM doubtful_slice AS next, trace
WHERE sched_slice.trace_id = $trace_id
  AND trace.trace_id = $trace_id
  AND NOT is_windows_source(trace.source)
  AND next.ready_is_doubtful
  AND sched_slice.cpu = next.cpu
  AND sched_slice.ts + sched_slice.dur = next.ts
  AND sched_slice.end_reason IN (
    'preempted', 'quantum_end', 'quantum_end_or_yield', 'runnable_other'
  )
"""


def forget(
    con: duckdb.DuckDBPyConnection, parameters: dict[str, int], near: dict[str, int], wide_ns: int
) -> None:
    """Changes `sched_slice`; `parameters` has the trace_id.

    `near` has the width of `gap_bin` in ns, and where the first gap starts and the last one ends;
    a bin of `wide_ns` contains few slices of one thread.
    """
    [(slices,)] = con.execute(_SLICES, {**parameters, **near}).fetchall()
    if slices:
        con.execute(_FORGET_REASONS, parameters)
        con.execute(_FORGET_READY)
    con.execute(_LOST, {**parameters, "wide_ns": wide_ns})
    con.execute(_FORGET_CPU, {**parameters, "wide_ns": wide_ns})
    for table in ("lost_time", "doubtful_slice"):
        con.execute(f"DROP TABLE {table}")
