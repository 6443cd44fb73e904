-- Perfetto's table thread_state: the states of each thread over its life, with Perfetto's state
-- strings. Times are ns of this recording.
-- p_trace_id: only this recording; null for all.
WITH
  spell AS (
    SELECT
      *,
      lag(reason) OVER (PARTITION BY utid ORDER BY ts, ts + dur) AS reason_before,
      lag(state) OVER (PARTITION BY utid ORDER BY ts, ts + dur) AS state_before,
    FROM main.thread_state
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  )
SELECT
  -- Recording.
  trace_id,
  -- Start, ns. (time)
  ts,
  -- Length, ns. (no bounds)
  dur,
  -- Logical CPU; null unless it runs.
  CASE WHEN state = 'running' THEN cpu END AS cpu,
  -- Thread.
  utid,
  -- Running, R (runnable after a wakeup), R+ (runnable after it was switched out), Created, or the
  -- letter of the wait; null: unknown.
  CASE state
    WHEN 'running' THEN 'Running'
    WHEN 'ready' THEN CASE
      WHEN waker_utid IS NULL AND state_before = 'running' THEN 'R+'
      ELSE 'R'
    END
    WHEN 'new' THEN 'Created'
    WHEN 'waiting' THEN CASE
      WHEN reason IS NULL THEN 'S'
      ELSE reason
    END
  END AS state,
  -- Whether it waits for a disk; null if not recorded.
  NULL::BOOLEAN AS io_wait,
  -- Waker, if a wakeup started this runnable state.
  waker_utid,
  -- Logical CPU, unique in the database; null unless it runs.
  CASE WHEN state = 'running' THEN trace_id << 32 | cpu END AS ucpu,
FROM spell
ORDER BY trace_id, utid, ts, ts + dur;
