-- Time in the window in which threads waited or were ready, with the stack with which each left its
-- CPU.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  span AS (
    SELECT span.*
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns) AS span
    SEMI JOIN stack USING (trace_id)
  ),
  -- A thread that waits and is then ready left its CPU once: when it last ran.
  followed AS (
    SELECT
      s.trace_id,
      s.utid,
      s.ts,
      s.dur,
      s.state,
      s.reason,
      s.waker_utid,
      max(CASE WHEN s.state NOT IN ('waiting', 'ready') THEN s.ts + s.dur END)
        OVER (PARTITION BY s.utid ORDER BY s.ts ROWS UNBOUNDED PRECEDING) AS left_ns,
    FROM thread_state AS s
    SEMI JOIN who ON who.utid = s.utid
    SEMI JOIN span ON span.trace_id = s.trace_id
  ),
  left_with AS (SELECT utid, ts, stack_id FROM left_stack(p_trace_id))
SELECT
  -- Recording.
  f.trace_id,
  -- The thread, unique in the database.
  f.utid,
  -- Start, cut off at the window. (time)
  greatest(f.ts, span.start_ns) AS start_ns,
  -- Length inside the window, ns. (at least)
  clipped_ns(f.ts, f.dur, span.start_ns, span.end_ns) AS dur_ns,
  -- waiting or ready.
  f.state,
  -- Wait reason or Linux state of a waiting thread; null if not recorded.
  f.reason,
  -- Thread whose wakeup made it ready; null if it waits, or was ready without a wakeup.
  f.waker_utid,
  -- When it left its CPU; null if that is not recorded. (time)
  f.left_ns,
  -- The stack with which it left its CPU; null if none was recorded.
  left_with.stack_id,
FROM followed AS f
JOIN span ON span.trace_id = f.trace_id
LEFT JOIN left_with ON left_with.utid = f.utid AND left_with.ts = f.left_ns
WHERE f.state IN ('waiting', 'ready') AND f.ts <= span.end_ns AND f.ts + f.dur >= span.start_ns
  AND clipped_ns(f.ts, f.dur, span.start_ns, span.end_ns) > 0
ORDER BY f.trace_id, f.utid, f.ts;
