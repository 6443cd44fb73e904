"""Marks waits as unknown that end without a wakeup.

Where wakeups are recorded, the thread may have been ready for a part of such a wait, and of its
last wait, which has no end. In a recording without wakeups this is true of all waits: none is
changed, and the views count them as unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_HAS_WAKEUPS = """
SELECT EXISTS (FROM wakeup WHERE trace_id = $trace_id AND ends_wait(kind))
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
SELECT wait.rowid AS row, wait.utid
FROM thread_state_other AS wait
JOIN entered ON entered.utid = wait.utid AND entered.ts = wait.ts + wait.dur
ANTI JOIN woken ON woken.utid = entered.utid AND woken.ts = entered.ts
WHERE wait.trace_id = $trace_id AND wait.state IN ('waiting', 'new') AND wait.dur > 0
"""

# A recorder that misses the wakeups of a thread may have missed the one of its last wait too.
_LAST_WAITS = """
INSERT INTO unwoken_wait
SELECT wait.rowid, wait.utid
FROM thread_state_other AS wait
JOIN trace USING (trace_id)
WHERE trace_id = $trace_id
  AND wait.utid IN (SELECT utid FROM unwoken_wait)
  AND wait.state = 'waiting' AND wait.dur > 0 AND wait.ts + wait.dur >= trace.duration_ns
"""

_FORGET_WAITS = """
UPDATE thread_state_other AS state
SET state = 'unknown', left_censored = true, right_censored = true, reason = NULL
FROM unwoken_wait
WHERE state.rowid = unwoken_wait.row
"""


def apply(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Changes these rows of `thread_state_other`."""
    parameters = {"trace_id": trace_id}
    [(has_wakeups,)] = con.execute(_HAS_WAKEUPS, parameters).fetchall()
    if not has_wakeups:
        return
    con.execute(_UNWOKEN, parameters)
    con.execute(_LAST_WAITS, parameters)
    con.execute(_FORGET_WAITS)
    con.execute("DROP TABLE unwoken_wait")
