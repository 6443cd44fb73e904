-- Perfetto's table thread_state: the states of each thread over its life, with Perfetto's state
-- strings. Times are ns of this recording.
-- p_trace_id: only this recording; null for all.
WITH
  spell AS (
    SELECT
      s.*,
      trace.source,
      lag(s.state) OVER (PARTITION BY utid ORDER BY s.ts, s.ts + s.dur) AS state_before,
      lag(s.ts) OVER (PARTITION BY utid ORDER BY s.ts, s.ts + s.dur) AS ts_before,
      lag(s.cpu) OVER (PARTITION BY utid ORDER BY s.ts, s.ts + s.dur) AS cpu_before,
    FROM main.thread_state AS s
    JOIN main.trace AS trace USING (trace_id)
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  -- How each slice ended.
  slice AS (
    SELECT utid, cpu, ts, dur, any_value(end_state) AS end_state
    FROM perfetto.sched(p_trace_id := p_trace_id)
    GROUP BY ALL
  )
SELECT
  -- Recording.
  s.trace_id,
  -- Start, ns. (time)
  s.ts,
  -- Length, ns. (no bounds)
  s.dur,
  -- Logical CPU; null unless it runs.
  CASE WHEN s.state = 'running' THEN s.cpu END AS cpu,
  -- Thread.
  s.utid,
  -- Running, R (runnable), R+ (runnable after it was preempted), Created, or the letter of the
  -- wait; null: unknown.
  CASE s.state
    WHEN 'running' THEN 'Running'
    WHEN 'ready' THEN CASE
      WHEN s.waker_utid IS NULL AND s.state_before = 'running' THEN coalesce(slice.end_state, 'R+')
      ELSE 'R'
    END
    WHEN 'new' THEN 'Created'
    WHEN 'waiting' THEN CASE WHEN is_windows_source(s.source) THEN 'S' ELSE coalesce(s.reason, 'S') END
  END AS state,
  -- Whether it waits for a disk; null if not recorded.
  NULL::BOOLEAN AS io_wait,
  -- Why it waits: the wait reason of Windows; null if not recorded.
  CASE WHEN s.state = 'waiting' AND is_windows_source(s.source) THEN s.reason END AS blocked_function,
  -- Waker, if a wakeup started this runnable state.
  s.waker_utid,
  -- Logical CPU, unique in the database; null unless it runs.
  CASE WHEN s.state = 'running' THEN s.trace_id << 32 | s.cpu END AS ucpu,
FROM spell AS s
LEFT JOIN slice
  ON s.state = 'ready' AND s.state_before = 'running'
  AND slice.utid = s.utid AND slice.cpu = s.cpu_before AND slice.ts = s.ts_before
  AND slice.ts + slice.dur = s.ts
ORDER BY s.trace_id, s.utid, s.ts, s.ts + s.dur;
