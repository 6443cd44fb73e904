"""Marks waits as unknown that end without a wakeup.

Where wakeups are recorded, the thread may have been ready for a part of such a wait, and of its
last wait, which has no end. In a recording without wakeups this is true of all waits: none is
changed, and the views count them as unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_FACTS = """
SELECT EXISTS (FROM wakeup WHERE trace_id = $trace_id AND ends_wait(kind)), duration_ns
FROM trace
WHERE trace_id = $trace_id
"""

_UNWOKEN = """
CREATE OR REPLACE TEMP TABLE unwoken_wait AS
WITH
  -- Materialized, so that these few are looked up in the periods and not the other way round.
  entered AS MATERIALIZED (
    SELECT utid, ts
    FROM sched_slice
    WHERE trace_id = $trace_id AND ready_ns IS NULL AND NOT is_idle AND NOT left_censored
  ),
  -- A wakeup at the time of the switch-in leaves no time in which the thread was ready.
  woken AS (
    SELECT utid, ts FROM wakeup JOIN entered USING (utid, ts) WHERE trace_id = $trace_id
  )
SELECT wait.rowid AS row, wait.utid, wait.ts, wait.dur, wait.waker_utid
FROM thread_state_other AS wait
JOIN entered ON entered.utid = wait.utid AND entered.ts = wait.ts + wait.dur
ANTI JOIN woken ON woken.utid = entered.utid AND woken.ts = entered.ts
WHERE wait.trace_id = $trace_id AND wait.state IN ('waiting', 'new') AND wait.dur > 0
"""

# A recorder that misses the wakeups of a thread may have missed the one of its last wait too.
_LAST_WAITS = """
INSERT INTO unwoken_wait
SELECT rowid, utid, ts, dur, waker_utid
FROM thread_state_other
WHERE trace_id = $trace_id
  AND utid IN (SELECT utid FROM unwoken_wait)
  AND state = 'waiting' AND dur > 0 AND ts + dur >= $duration_ns
"""

# Deleted and inserted: an update of these few would write the columns of all other rows again. A
# wait is there twice if two slices begin at its end, or as a last one.
_FORGET_WAITS = "DELETE FROM thread_state_other WHERE rowid IN (SELECT row FROM unwoken_wait)"
_UNKNOWN_WAITS = """
INSERT INTO thread_state_other BY NAME
SELECT
  $trace_id AS trace_id,
  utid,
  ts,
  dur,
  'unknown' AS state,
  waker_utid,
  true AS left_censored,
  true AS right_censored,
FROM (SELECT DISTINCT * FROM unwoken_wait)
"""


def apply(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Changes these rows of `thread_state_other`."""
    parameters = {"trace_id": trace_id}
    [(has_wakeups, duration_ns)] = con.execute(_FACTS, parameters).fetchall()
    if not has_wakeups:
        return
    [(unwoken,)] = con.execute(_UNWOKEN, parameters).fetchall()
    if unwoken:
        con.execute(_LAST_WAITS, {**parameters, "duration_ns": duration_ns})
        con.execute(_FORGET_WAITS)
        con.execute(_UNKNOWN_WAITS, parameters)
    con.execute("DROP TABLE unwoken_wait")
