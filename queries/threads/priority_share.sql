-- Running and ready time of all threads by priority. If half of the runnable time is ready time,
-- work of this priority runs only half of the time. A slice and the ready time before it count at
-- the priority of its switch-in. On Linux a lower number is the higher priority.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Priority as recorded; null if not recorded.
  priority,
  -- Threads that ran at it, each counted once per process.
  sum(threads)::BIGINT AS threads,
  -- Running time, ns. A priority applies until the next recorded change. (no bounds)
  sum(run_ns)::BIGINT AS run_ns,
  -- Ready time before these slices, ns; null if none is known. (no bounds)
  sum(ready_ns)::BIGINT AS ready_ns,
  -- Ready time as a share of running and ready time, percent; null if none is known. (no bounds)
  100.0 * sum(ready_ns) / nullif(sum(run_ns) + sum(ready_ns), 0) AS ready_pct,
  -- Switch-ins. (no bounds)
  sum(switches_in)::BIGINT AS switches_in,
  -- Longest known ready time before a switch-in, ns. (no bounds)
  max(ready_max_ns) AS ready_max_ns,
FROM thread_by_priority(p_trace_id, p_from_ns, p_to_ns, p_process)
GROUP BY trace_id, priority
ORDER BY trace_id, run_ns DESC, priority;
