-- Where each thread ran: its running time and switch-ins on each logical CPU.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  spent AS (
    SELECT
      s.trace_id,
      s.utid,
      s.cpu,
      sum(clipped_ns(s.ts, s.dur, start_ns, end_ns))::BIGINT AS run_ns,
      count(*) FILTER (WHERE s.ts >= start_ns AND NOT s.left_censored) AS switches_in,
      max(clipped_ns(s.ts, s.dur, start_ns, end_ns)) AS longest_ns,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    WHERE NOT s.is_idle AND s.ts <= end_ns AND s.ts + s.dur >= start_ns
    GROUP BY s.trace_id, s.utid, s.cpu
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name of the process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  who.utid,
  -- Logical CPU.
  spent.cpu,
  -- Running time on it, ns. (at least; unknown_ns more at most)
  run_ns,
  -- run_ns as a share of the thread's running time in the window, percent. (no bounds)
  100.0 * run_ns / nullif(sum(run_ns) OVER (PARTITION BY who.utid), 0) AS of_thread_pct,
  -- Switch-ins on it. (at least)
  switches_in,
  -- Longest slice on it, clipped to the window, ns. (at least)
  longest_ns,
  -- Time in which the states of both the thread and the CPU may be unknown, ns. (bound)
  least(coalesce(t.run_unknown_ns, 0), coalesce(c.unknown_ns, 0)) AS unknown_ns,
FROM spent
JOIN who USING (utid)
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t USING (utid)
LEFT JOIN cpu_unknown(p_trace_id, p_from_ns, p_to_ns) AS c
  ON c.trace_id = spent.trace_id AND c.cpu = spent.cpu
ORDER BY who.trace_id, who.utid, spent.cpu;
