-- What the threads of each group that shares the CPUs got in the window, and what was fair
-- (fair_share). Threads in no group are a row of their own; threads of which nothing shows what is
-- fair are left out; no rows if no group was recorded (sharing_group).
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  member AS (FROM sharing_group(p_trace_id))
SELECT
  -- Recording.
  f.trace_id,
  -- The innermost group: path of a cgroup, or a session as /proc/PID/autogroup names it; null for
  -- threads in no group.
  g.path[-1] AS name,
  -- The weight of each group that it is in, from the outermost, and its own; 1024 is the default.
  any_value(g.weights) AS weights,
  -- Threads of it that ran or were ready.
  count(*) AS threads,
  -- Running time, ns. (at least)
  sum(f.run_ns)::BIGINT AS run_ns,
  -- run_ns as a share of the window, percent of one logical CPU. (at least)
  100.0 * sum(f.run_ns) / nullif(any_value(span.dur_ns), 0) AS run_pct,
  -- Ready time: runnable but not running, ns. (at least)
  sum(f.ready_ns)::BIGINT AS ready_ns,
  -- Ready time that fair sharing would cost its threads in the same running and ready time, ns.
  -- (no bounds)
  sum(f.fair_ready_ns)::BIGINT AS fair_ready_ns,
  -- Ready time beyond that, ns; negative for a group that got more than its share.
  -- (no bounds)
  sum(f.excess_ready_ns)::BIGINT AS excess_ready_ns,
FROM fair_share(p_trace_id, p_from_ns, p_to_ns, p_process) AS f
JOIN span ON span.trace_id = f.trace_id
SEMI JOIN member AS known ON known.trace_id = f.trace_id
LEFT JOIN member AS g ON g.utid = f.utid
WHERE f.fair_ready_ns IS NOT NULL
GROUP BY f.trace_id, g.path
ORDER BY f.trace_id, run_ns DESC, name NULLS LAST;
