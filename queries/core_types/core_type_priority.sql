-- Which core types the threads of each priority ran on.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (FROM topology(p_trace_id)),
  spent AS (
    SELECT
      s.trace_id,
      s.priority,
      place.core_type,
      place.efficiency_class,
      count(DISTINCT s.utid) AS threads,
      sum(
        clipped_ns(s.ts, s.dur, greatest(start_ns, place.from_ns), least(end_ns, place.to_ns))
      )::BIGINT AS run_ns,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    LEFT JOIN place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND place.to_ns > s.ts AND place.from_ns <= s.ts + s.dur
      AND place.to_ns > start_ns AND place.from_ns <= end_ns
    WHERE (p_process IS NULL OR s.utid IN (SELECT utid FROM who))
      AND NOT s.is_idle AND s.ts <= end_ns AND s.ts + s.dur >= start_ns
    GROUP BY s.trace_id, s.priority, place.core_type, place.efficiency_class
  )
SELECT
  -- Recording.
  trace_id,
  -- Priority as recorded; null if not recorded.
  priority,
  -- Core type: U (uniform), P, E or LP-E; null if unknown.
  core_type,
  -- Efficiency class as the system reports it; null if unknown.
  efficiency_class,
  -- Threads that ran at this priority on CPUs of this type.
  threads,
  -- Their running time there, ns. A priority applies until the next recorded change. (no bounds)
  run_ns,
  -- run_ns as a share of all running time at this priority, percent. (no bounds)
  100.0 * run_ns / nullif(sum(run_ns) OVER (PARTITION BY trace_id, priority), 0) AS of_priority_pct,
FROM spent
ORDER BY trace_id, priority, efficiency_class DESC NULLS LAST, core_type;
