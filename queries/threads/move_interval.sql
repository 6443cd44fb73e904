-- Each continuation of a thread on another CPU, and how long it was on the CPU before: from the move
-- to that CPU, running or not. The first move of a thread, and one before which records may be lost,
-- has no time.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  slice AS (
    SELECT
      s.trace_id,
      s.utid,
      s.ts,
      s.cpu,
      s.prev_cpu,
      -- After lost records it is not known where the thread ran before.
      count(*) FILTER (WHERE s.prev_cpu IS NULL) OVER sofar AS part,
      coalesce(sum(s.dur) OVER before, 0)::BIGINT AS run_before_ns,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    SEMI JOIN who ON who.utid = s.utid
    WHERE NOT s.is_idle AND s.ts >= span.start_ns AND s.ts < span.end_ns
    WINDOW
      sofar AS (PARTITION BY s.utid ORDER BY s.ts, s.dur ROWS UNBOUNDED PRECEDING),
      before AS (
        PARTITION BY s.utid ORDER BY s.ts, s.dur ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      )
  )
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- When it continued on another CPU, ns. (time)
  ts,
  -- CPU it ran on before.
  prev_cpu,
  -- CPU it continued on.
  cpu,
  -- Time since it came to prev_cpu, ns; null if unknown. (no bounds)
  (ts - lag(ts) OVER own)::BIGINT AS after_ns,
  -- Its running time in after_ns, ns. (no bounds)
  (run_before_ns - lag(run_before_ns) OVER own)::BIGINT AS run_ns,
FROM slice
WHERE prev_cpu <> cpu
WINDOW own AS (PARTITION BY utid, part ORDER BY ts, run_before_ns)
ORDER BY trace_id, utid, ts, run_before_ns;
