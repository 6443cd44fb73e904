"""Marks as unknown what lost events and threads without a recorded start leave open.

The state machine explains each thread by the records that exist. While any CPU may have lost
records, a thread that is not running may have been woken, switched in and switched out there
without a record. `apply` makes such time unknown:

- A ready, waiting or new period is known up to the first gap on any CPU. From there on it is
  unknown, up to the end of the last gap or, if that is later, the last record that contradicts the
  period. Behind that, the record that ends the period shows what the thread did: a wakeup shows
  that it waited, a switch-in that it was ready.
- A thread that started at an unknown time is unknown up to its first record.
- So may be waits of which no wakeup is recorded (`unwoken_waits`).
- Whether a CPU is parked is unknown from a gap on any CPU up to its next record.
- Ready and wait times of a slice that such a gap may have changed are NULL (`gap_slices`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlens.load import gap_slices, offline, stream_edges, unwoken_waits

if TYPE_CHECKING:
    import duckdb

# Merged times in which records of some CPU are missing.
_GAPS = """
CREATE OR REPLACE TEMP TABLE gap AS
WITH
  placed AS (
    SELECT
      greatest(coalesce(loss.start_ns, first_ns), first_ns) AS start_ns,
      least(coalesce(loss.end_ns, duration_ns), duration_ns) AS end_ns,
    FROM loss
    JOIN trace USING (trace_id)
    WHERE loss.trace_id = $trace_id AND loss.cpu IS NOT NULL
  ),
  numbered AS (
    SELECT
      *,
      coalesce(
        start_ns > max(end_ns) OVER (
          ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        true
      )::INTEGER AS begins,
    FROM placed
    WHERE start_ns < end_ns
  ),
  island AS (
    SELECT start_ns, end_ns, sum(begins) OVER (ORDER BY start_ns, end_ns) AS number
    FROM numbered
  )
SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM island
GROUP BY number
"""

# Most periods are short and far from any gap: bins of the recording show which, without a search. A
# period of at most one bin's length that touches a gap ends in a bin of it or in the one behind.
_BINS = """
CREATE OR REPLACE TEMP TABLE gap_bin AS
SELECT DISTINCT unnest(range(start_ns // $width_ns, (end_ns - 1) // $width_ns + 2)) AS number
FROM gap
"""
_BOUNDS = """
SELECT
  any_value(first_ns),
  any_value(duration_ns) - any_value(first_ns),
  min(gap.start_ns),
  max(gap.end_ns),
FROM trace, gap
WHERE trace_id = $trace_id
"""
_BIN_COUNT = 1 << 16
# Fewer where each thread has bins of its own.
_WIDE_COUNT = 1 << 11

# Whether a thread that was switched in must have been ready since the last gap. Some kernels miss
# wakeups, which shows far from any gap as waits that end without one. A single one counts: a kernel
# misses the wakeups of certain threads, which are few next to those of two busy ones.
_WAKEUPS = """
CREATE OR REPLACE TEMP TABLE wakeups_complete AS
WITH
  unwoken AS (
    SELECT slice.ts, wait.ts AS wait_ns
    FROM sched_slice AS slice
    JOIN thread_state_other AS wait ON wait.utid = slice.utid AND wait.ts + wait.dur = slice.ts
    WHERE slice.trace_id = $trace_id
      AND wait.trace_id = $trace_id
      AND slice.ready_ns IS NULL
      AND NOT slice.is_idle
      AND NOT slice.left_censored
      AND wait.state = 'waiting'
      AND wait.dur > 0
  ),
  clean AS (
    SELECT count(*) AS unwoken
    FROM unwoken
    ASOF LEFT JOIN gap ON unwoken.ts > gap.start_ns
    WHERE coalesce(gap.end_ns, unwoken.wait_ns) <= unwoken.wait_ns
  ),
  woken AS (
    SELECT ts
    FROM sched_slice
    WHERE trace_id = $trace_id AND ready_ns IS NOT NULL AND wait_ns > 0
    LIMIT 100
  )
SELECT (SELECT count(*) FROM woken) = 100 AND clean.unwoken = 0 AS yes
FROM clean
"""

# Threads that started at an unknown time: the recording contains no start record, and the list of
# threads at its beginning does not contain them.
_UNLISTED = """
CREATE OR REPLACE TEMP TABLE unlisted_thread AS
WITH
  whole AS (
    SELECT first_ns, is_windows_source(source) AS is_etw FROM trace WHERE trace_id = $trace_id
  ),
  listed AS (
    SELECT utid
    FROM thread_name, whole
    WHERE trace_id = $trace_id AND ts IS NULL AND NOT is_etw
    UNION
    SELECT utid
    FROM affinity, whole
    WHERE trace_id = $trace_id AND valid_from_ns IS NULL AND source = 'rundown' AND is_etw
    UNION
    SELECT utid
    FROM snapshot_thread
    WHERE trace_id = $trace_id AND edge = 'begin'
  ),
  lists AS (
    SELECT count(*) > 0 AS threads
    FROM listed
    JOIN thread USING (utid)
    WHERE NOT is_idle
  )
SELECT utid, first_ns, is_etw
FROM thread, whole, lists
WHERE trace_id = $trace_id
  AND lists.threads
  AND start_ns IS NULL
  AND NOT is_idle
  AND utid NOT IN (SELECT utid FROM listed)
"""

# Windows lists all threads. perf does not see those outside its container, so their start is in
# doubt only where records are missing.
_UNBORN = """
UPDATE thread_state_other AS state
SET state = 'unknown'
FROM unlisted_thread AS unlisted
WHERE unlisted.is_etw
  AND state.utid = unlisted.utid
  AND state.ts = unlisted.first_ns
  AND state.state IN ('waiting', 'ready', 'new')
"""

# Each period that touches a gap and in which the thread does not run, cut in up to three parts:
# unchanged up to `gap_ns`, unknown up to `gap_end_ns`, and then what its last record shows. `row`
# is its place in `thread_state_other`; below 0, a slice has it, and `gap_slices` takes it away.
_PERIODS = """
CREATE OR REPLACE TEMP TABLE doubtful_period AS
WITH
  facts AS (
    SELECT
      is_windows_source(source) AS is_etw,
      EXISTS (FROM wakeup WHERE trace_id = $trace_id AND ends_wait(kind)) AS has_wakeups,
      EXISTS (FROM context_switch WHERE trace_id = $trace_id) AS has_switches,
      (SELECT coalesce(yes, false) FROM wakeups_complete) AS wakeups_complete,
    FROM trace
    WHERE trace_id = $trace_id
  ),
  off_cpu AS (
    SELECT rowid AS row, utid, ts, dur, state, reason, waker_utid, left_censored, right_censored
    FROM thread_state_other
    WHERE trace_id = $trace_id
    UNION ALL
    SELECT -1 - rowid, utid, ts - ready_ns, ready_ns, 'ready', NULL, waker_utid, false, false
    FROM sched_slice
    WHERE trace_id = $trace_id AND NOT is_idle AND ready_ns > 0
  ),
  touched AS (
    SELECT state.*, ts + dur AS end_ns
    FROM off_cpu AS state
    WHERE state.dur > 0
      AND state.ts < $gaps_end_ns
      AND state.ts + state.dur > $gaps_start_ns
      AND (
        state.dur > $width_ns
        OR (state.ts + state.dur - 1) // $width_ns IN (FROM gap_bin)
      )
      -- What came before a thread's first record is unknown for another reason.
      AND (state.state <> 'unknown' OR state.ts > $first_ns)
  ),
  bounded AS (
    SELECT
      touched.*,
      CASE
        WHEN unlisted.utid IS NULL THEN greatest(touched.ts, first_gap.start_ns)
        ELSE touched.ts
      END AS gap_ns,
      least(touched.end_ns, last_gap.end_ns) AS gap_end_ns,
    FROM touched
    ASOF JOIN gap AS first_gap ON touched.ts < first_gap.end_ns
    ASOF JOIN gap AS last_gap ON touched.end_ns > last_gap.start_ns
    LEFT JOIN unlisted_thread AS unlisted
      ON unlisted.utid = touched.utid AND unlisted.first_ns = touched.ts
    WHERE greatest(touched.ts, first_gap.start_ns) < least(touched.end_ns, last_gap.end_ns)
  ),
  -- Only here something is left behind the gap, and it matters how the period ended.
  outlasting AS (FROM bounded WHERE gap_end_ns < end_ns),
  -- A ready thread that is woken has run and waited since. Joined by bins: few of millions of
  -- wakeups are in what is left of such a period.
  rewoken AS (
    SELECT behind.row, max(wakeup.ts) AS ts
    FROM (
      SELECT *, unnest(range(gap_end_ns // $wide_ns, end_ns // $wide_ns + 1)) AS bin
      FROM outlasting
      WHERE state = 'ready'
    ) AS behind
    JOIN wakeup ON wakeup.utid = behind.utid AND wakeup.ts // $wide_ns = behind.bin
    WHERE wakeup.trace_id = $trace_id AND wakeup.kind <> 'wakeup'
      AND wakeup.ts > behind.gap_end_ns AND wakeup.ts <= behind.end_ns
    GROUP BY behind.row
  ),
  -- A wakeup during the slice before a wait may have made the thread ready where it left its CPU:
  -- whether it was effective shows when the thread is switched in, which the gap may hide. An ASOF
  -- join sorts its right side: here without the many rows of threads that it is not about.
  woken_before AS (
    SELECT DISTINCT bounded.row
    FROM bounded
    JOIN sched_slice AS before
      ON before.utid = bounded.utid AND before.ts + before.dur = bounded.ts
    ASOF JOIN (
      SELECT utid, ts
      FROM wakeup
      WHERE trace_id = $trace_id AND NOT effective
        AND utid IN (SELECT utid FROM bounded WHERE state = 'waiting')
    ) AS woken
      ON woken.utid = bounded.utid AND woken.ts <= bounded.ts
    WHERE bounded.state = 'waiting' AND bounded.gap_ns > bounded.ts
      AND before.trace_id = $trace_id AND NOT before.is_idle AND woken.ts >= before.ts
  ),
  -- How it was woken at the end of the period: `wakeup_new` is the first wakeup of a thread, so any
  -- other one shows that a new thread has run and waited since. A thread that is woken and switched
  -- in at one time is ready for no time.
  woken_at_end AS (
    SELECT outlasting.row, any_value(wakeup.kind) FILTER (wakeup.effective) AS kind
    FROM outlasting
    JOIN wakeup ON wakeup.utid = outlasting.utid AND wakeup.ts = outlasting.end_ns
    WHERE outlasting.state <> 'ready' AND wakeup.trace_id = $trace_id
    GROUP BY outlasting.row
  ),
  followed AS (
    SELECT
      outlasting.row,
      bool_or(next.state = 'ready' OR woken_at_end.row IS NOT NULL) AS by_wakeup,
      bool_or(next.state = 'running' AND woken_at_end.row IS NULL) AS by_switch_in,
    FROM outlasting
    JOIN thread_state AS next ON next.utid = outlasting.utid AND next.ts = outlasting.end_ns
    LEFT JOIN woken_at_end ON woken_at_end.row = outlasting.row
    WHERE next.trace_id = $trace_id
    GROUP BY outlasting.row
  )
SELECT
  bounded.row,
  bounded.utid,
  bounded.ts,
  CASE WHEN woken_before.row IS NULL THEN bounded.gap_ns ELSE bounded.ts END AS gap_ns,
  greatest(bounded.gap_end_ns, coalesce(rewoken.ts, bounded.gap_end_ns)) AS gap_end_ns,
  bounded.end_ns,
  bounded.state,
  bounded.reason,
  bounded.waker_utid,
  bounded.left_censored,
  bounded.right_censored,
  CASE
    -- Wakeups alone do not show what a thread did in between.
    WHEN NOT has_switches THEN 'unknown'
    WHEN bounded.state = 'ready' AND by_switch_in AND (is_etw OR wakeups_complete) THEN 'ready'
    WHEN bounded.state IN ('waiting', 'unknown') AND by_wakeup AND NOT by_switch_in
      THEN 'waiting'
    WHEN bounded.state = 'new' AND by_wakeup AND NOT by_switch_in
      THEN CASE woken_at_end.kind
        WHEN 'wakeup_new' THEN 'new'
        WHEN 'ready' THEN 'unknown'
        ELSE 'waiting'
      END
    -- A switch-in without a wakeup: on Linux, if any wakeups are recorded, this one is in the gap.
    WHEN bounded.state IN ('waiting', 'unknown') AND by_switch_in AND NOT has_wakeups
      THEN 'waiting'
    WHEN bounded.state IN ('waiting', 'unknown') AND by_switch_in AND NOT is_etw
      AND wakeups_complete
      THEN 'ready'
    ELSE 'unknown'
  END AS after,
FROM bounded
CROSS JOIN facts
LEFT JOIN rewoken USING (row)
LEFT JOIN followed USING (row)
LEFT JOIN woken_before USING (row)
LEFT JOIN woken_at_end USING (row)
"""

# Three inserts, so that the first, of which there may be millions, is not part of a join.
_UNKNOWN_PART = """
INSERT INTO thread_state_other BY NAME
SELECT
  $trace_id AS trace_id,
  utid,
  CASE WHEN state = 'unknown' THEN ts ELSE gap_ns END AS ts,
  CASE WHEN after = 'unknown' THEN end_ns ELSE gap_end_ns END
    - CASE WHEN state = 'unknown' THEN ts ELSE gap_ns END AS dur,
  'unknown' AS state,
  true AS left_censored,
  true AS right_censored,
FROM doubtful_period
"""
_PART_BEFORE = """
INSERT INTO thread_state_other BY NAME
SELECT
  $trace_id AS trace_id,
  utid,
  ts,
  gap_ns - ts AS dur,
  state,
  reason,
  waker_utid,
  left_censored,
  true AS right_censored,
FROM doubtful_period
WHERE state <> 'unknown' AND gap_ns > ts
"""
_PART_BEHIND = """
INSERT INTO thread_state_other BY NAME
SELECT
  $trace_id AS trace_id,
  utid,
  gap_end_ns AS ts,
  end_ns - gap_end_ns AS dur,
  after AS state,
  true AS left_censored,
  right_censored,
FROM doubtful_period
WHERE after <> 'unknown' AND end_ns > gap_end_ns
"""

# Windows records when a CPU is parked or unparked: a gap on any CPU may hide such a record.
_PARKING = """
INSERT INTO cpu_parking BY NAME
SELECT
  $trace_id AS trace_id,
  greatest(gap.start_ns, known.ts) AS ts,
  known.cpu,
  'lost records' AS reason,
FROM (
  SELECT
    cpu,
    parked,
    coalesce(ts, 0) AS ts,
    lead(ts) OVER (PARTITION BY cpu ORDER BY ts NULLS FIRST, rowid) AS next_ns,
  FROM cpu_parking
  WHERE trace_id = $trace_id
) AS known
ASOF JOIN gap ON known.ts < gap.end_ns
WHERE known.parked IS NOT NULL
  AND greatest(gap.start_ns, known.ts) < coalesce(known.next_ns, gap.end_ns)
"""


def apply(con: duckdb.DuckDBPyConnection, trace_id: int) -> None:
    """Marks as unknown what the gaps of a recording leave open, and CPUs as offline that were.

    Call this once, when the base and derived tables are complete.
    """
    parameters = {"trace_id": trace_id}
    offline.apply(con, trace_id)
    stream_edges.apply(con, trace_id)
    con.execute(_UNLISTED, parameters)
    if _has_rows(con, "unlisted_thread WHERE is_etw"):
        con.execute(_UNBORN)
    con.execute(_GAPS, parameters)
    if _has_rows(con, "gap"):
        _apply_gaps(con, parameters)
    # Last, because waits that end without a wakeup show whether the recording misses any.
    unwoken_waits.apply(con, trace_id)
    for table in ("unlisted_thread", "gap"):
        con.execute(f"DROP TABLE {table}")


def _has_rows(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    return con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None


def _apply_gaps(con: duckdb.DuckDBPyConnection, parameters: dict[str, int]) -> None:
    [(first, length, start, end)] = con.execute(_BOUNDS, parameters).fetchall()
    width, wide = (max(1, length // count) for count in (_BIN_COUNT, _WIDE_COUNT))
    near = {"width_ns": width, "gaps_start_ns": start, "gaps_end_ns": end}
    con.execute(_BINS, {"width_ns": width})
    con.execute(_WAKEUPS, parameters)
    con.execute(_PERIODS, {**parameters, **near, "wide_ns": wide, "first_ns": first})
    con.execute(_UNKNOWN_PART, parameters)
    con.execute(_PART_BEFORE, parameters)
    con.execute(_PART_BEHIND, parameters)
    con.execute("DELETE FROM thread_state_other WHERE rowid IN (SELECT row FROM doubtful_period)")
    gap_slices.forget(con, parameters, near, wide)
    con.execute(_PARKING, parameters)
    for table in ("doubtful_period", "wakeups_complete", "gap_bin"):
        con.execute(f"DROP TABLE {table}")
