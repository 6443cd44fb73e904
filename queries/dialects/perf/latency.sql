-- The columns of `perf sched latency`, by thread, over the default window, computed from the native
-- tables. The delay is the ready time before each switch-in, including after preemptions.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id)),
  switch_in AS (
    SELECT
      s.utid,
      count(*) AS switches,
      avg(s.ready_ns) AS avg_ns,
      max(s.ready_ns) AS max_ns,
      -- The first of several equally long ones.
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
  -- Running time, ms. (at least)
  t.run_ns / 1e6 AS "Runtime ms",
  -- Switch-ins.
  coalesce(switch_in.switches, 0) AS "Count",
  -- Mean ready time before a switch-in, ms; null if none is known. (no bounds)
  switch_in.avg_ns / 1e6 AS "Avg delay ms",
  -- Longest ready time before a switch-in, ms; null if none is known. (at least)
  switch_in.max_ns / 1e6 AS "Max delay ms",
  -- Start of the longest delay on the recording's clock, s. (time)
  (trace.start_clock + switch_in.max_end_ns - switch_in.max_ns) / 1e9 AS "Max delay start",
  -- End of the longest delay on the recording's clock, s. (time)
  (trace.start_clock + switch_in.max_end_ns) / 1e9 AS "Max delay end",
FROM thread_summary(p_trace_id, p_from_ns, p_to_ns) AS t
JOIN who ON who.utid = t.utid
JOIN trace ON trace.trace_id = who.trace_id
LEFT JOIN switch_in ON switch_in.utid = t.utid
WHERE t.run_ns > 0 OR switch_in.switches > 0
ORDER BY who.trace_id, t.run_ns DESC, who.utid;
