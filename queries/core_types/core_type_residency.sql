-- Which core types each thread ran on.
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
      s.utid,
      place.core_type,
      place.efficiency_class,
      sum(
        clipped_ns(s.ts, s.dur, greatest(start_ns, place.from_ns), least(end_ns, place.to_ns))
      )::BIGINT AS run_ns,
      count(*) FILTER (
        WHERE s.ts >= start_ns AND NOT s.left_censored
        AND (place.from_ns IS NULL OR s.ts >= place.from_ns)
      ) AS switches_in,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    LEFT JOIN place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND place.to_ns > s.ts AND place.from_ns <= s.ts + s.dur
      AND place.to_ns > start_ns AND place.from_ns <= end_ns
    WHERE NOT s.is_idle AND s.ts <= end_ns AND s.ts + s.dur >= start_ns
    GROUP BY s.utid, place.core_type, place.efficiency_class
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
  -- Core type: U (uniform), P, E or LP-E; null if unknown.
  core_type,
  -- Efficiency class as the system reports it; null if unknown.
  efficiency_class,
  -- Running time on CPUs of this type, ns. (at least; unknown_ns more at most)
  run_ns,
  -- run_ns as a share of the thread's running time in the window, percent. (no bounds)
  100.0 * run_ns / nullif(sum(run_ns) OVER (PARTITION BY who.utid), 0) AS of_thread_pct,
  -- Switch-ins on CPUs of this type. (at least)
  switches_in,
  -- Unknown time in which it may have run, plus its time on cores of unknown type, ns. (bound)
  (
    coalesce(t.run_unknown_ns, 0)
    + coalesce(sum(run_ns) FILTER (WHERE core_type IS NULL) OVER (PARTITION BY who.utid), 0)
    - CASE WHEN core_type IS NULL THEN run_ns ELSE 0 END
  )::BIGINT AS unknown_ns,
FROM spent
JOIN who USING (utid)
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t USING (utid)
ORDER BY who.trace_id, who.utid, efficiency_class DESC NULLS LAST, core_type;
