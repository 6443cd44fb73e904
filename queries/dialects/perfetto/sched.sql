-- Perfetto's table sched: one row per slice on a CPU, including the idle threads', with Perfetto's
-- names and state strings. Times are ns of this recording.
-- p_trace_id: only this recording; null for all.
WITH
  left_at AS (
    SELECT
      c.trace_id,
      c.ts,
      c.cpu,
      c.prev_utid,
      c.prev_state,
      c.prev_preempted,
      trace.source,
    FROM context_switch AS c
    JOIN trace USING (trace_id)
    WHERE p_trace_id IS NULL OR c.trace_id = p_trace_id
    QUALIFY row_number() OVER (
      PARTITION BY c.trace_id, c.cpu, c.ts, c.prev_utid ORDER BY c.seq
    ) = 1
  )
SELECT
  -- Recording.
  s.trace_id,
  -- Start, ns. (time)
  s.ts,
  -- Length, ns. (at least)
  s.dur,
  -- Logical CPU.
  s.cpu,
  -- Thread.
  s.utid,
  -- State in which the thread switched out: R (runnable), R+ (runnable, preempted), S, D, T, t, X,
  -- Z, P, I (idle task); null if not known.
  CASE
    WHEN s.right_censored THEN NULL
    WHEN s.is_idle THEN 'R'
    WHEN is_windows_source(left_at.source) OR left_at.prev_state IS NULL
      THEN CASE s.end_reason
        WHEN 'blocked' THEN 'S'
        WHEN 'exit' THEN 'X'
        WHEN 'unknown' THEN NULL
        WHEN 'preempted' THEN 'R+'
        WHEN 'quantum_end' THEN 'R+'
        ELSE 'R'
      END
    WHEN left_at.prev_state & 255 = 0
      THEN CASE WHEN left_at.prev_state & 256 <> 0 THEN 'R+' ELSE 'R' END
    -- The letter of the lowest bit.
    ELSE substr(
      'SDTtXZPI', length(bin((left_at.prev_state & 255) & -(left_at.prev_state & 255))), 1
    )
  END AS end_state,
  -- Priority as recorded.
  s.priority,
  -- Logical CPU, unique in the database.
  s.trace_id << 32 | s.cpu AS ucpu,
FROM sched_slice AS s
LEFT JOIN left_at
  ON left_at.trace_id = s.trace_id AND left_at.cpu = s.cpu
  AND left_at.prev_utid = s.utid AND left_at.ts = s.ts + s.dur
WHERE p_trace_id IS NULL OR s.trace_id = p_trace_id
ORDER BY s.trace_id, s.ts, s.cpu, s.dur, s.utid, end_state;
