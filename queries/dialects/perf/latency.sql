-- The columns of `perf sched latency`, by thread, over the default window, from the native tables:
-- the delay is the ready time before each switch-in, after preemptions too.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id)),
  entered AS (
    SELECT
      s.utid,
      count(*) AS switches,
      avg(s.ready_ns) AS avg_ns,
      max(s.ready_ns) AS max_ns,
      -- Of equally long ones the first.
      arg_max(s.ts, (s.ready_ns, -s.ts)) FILTER (WHERE s.ready_ns IS NOT NULL) AS max_end_ns,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    WHERE NOT s.is_idle AND NOT s.left_censored AND s.ts BETWEEN start_ns AND end_ns
    GROUP BY s.utid
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name and thread id.
  who.thread || ':' || who.tid AS "Task",
  -- Time on a CPU, ms. (at least)
  t.run_ns / 1e6 AS "Runtime ms",
  -- Switch-ins.
  coalesce(entered.switches, 0) AS "Count",
  -- Mean ready time before a switch-in, ms; null if not known of any. (no bounds)
  entered.avg_ns / 1e6 AS "Avg delay ms",
  -- Longest ready time before a switch-in, ms; null if not known of any. (at least)
  entered.max_ns / 1e6 AS "Max delay ms",
  -- Begin of it on the recording's clock, s. (time)
  (trace.start_clock + entered.max_end_ns - entered.max_ns) / 1e9 AS "Max delay start",
  -- End of it on the recording's clock, s. (time)
  (trace.start_clock + entered.max_end_ns) / 1e9 AS "Max delay end",
FROM thread_summary(p_trace_id, p_from_ns, p_to_ns) AS t
JOIN who ON who.utid = t.utid
JOIN trace ON trace.trace_id = who.trace_id
LEFT JOIN entered ON entered.utid = t.utid
WHERE t.run_ns > 0 OR entered.switches > 0
ORDER BY who.trace_id, t.run_ns DESC, who.utid;
