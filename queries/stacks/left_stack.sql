-- The stack with which each thread left its CPU. Windows records it when the thread is switched in
-- again, when it is still the same.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
WITH
  entered AS (
    SELECT trace_id, next_utid AS utid, ts, next_stack_id AS stack_id
    FROM context_switch
    SEMI JOIN stack USING (trace_id)
    WHERE next_stack_id IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  out_before AS (
    SELECT s.trace_id, s.prev_utid AS utid, s.ts, s.cpu
    FROM context_switch AS s
    SEMI JOIN entered USING (trace_id)
    WHERE s.prev_utid IS NOT NULL
  ),
  found AS (
    SELECT trace_id, prev_utid AS utid, ts, cpu, stack_id
    FROM context_switch
    SEMI JOIN stack USING (trace_id)
    WHERE stack_id IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION ALL
    SELECT o.trace_id, o.utid, o.ts, o.cpu, e.stack_id
    FROM entered AS e
    ASOF JOIN out_before AS o ON o.utid = e.utid AND e.ts >= o.ts
  )
SELECT
  -- Recording.
  trace_id,
  -- The thread, unique in the database.
  utid,
  -- When it left its CPU. (time)
  ts,
  -- The CPU.
  min(cpu) AS cpu,
  -- Its stack.
  max(stack_id) AS stack_id,
FROM found
WHERE utid IS NOT NULL
GROUP BY trace_id, utid, ts
ORDER BY trace_id, utid, ts;
