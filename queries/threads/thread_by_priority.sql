-- Running and ready time by priority: whether low priorities wait while high ones run. A slice and
-- the ready time before it count at the priority of its switch-in. Numbers are as recorded: on
-- Linux a lower number is more urgent (120 is nice 0), on Windows a higher one.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  slice AS (
    SELECT
      s.trace_id,
      who.process,
      s.utid,
      s.priority,
      -- Of most slices, the window cuts nothing.
      s.ts - coalesce(s.ready_ns, 0) >= start_ns AND s.ts + s.dur <= end_ns AS inside,
      CASE
        WHEN inside THEN s.dur
        ELSE greatest(0, clipped_ns(s.ts, s.dur, start_ns, end_ns))
      END AS run_ns,
      -- overlap_ns() ignores NULL.
      CASE
        WHEN inside THEN s.ready_ns
        WHEN s.ready_ns IS NOT NULL
          THEN greatest(0, overlap_ns(s.ts - s.ready_ns, s.ts, start_ns, end_ns))
      END AS ready_ns,
      s.ready_ns AS whole_ready_ns,
      s.ts BETWEEN start_ns AND end_ns AND NOT s.left_censored AS begins,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    JOIN who ON who.utid = s.utid
    WHERE s.ts - coalesce(s.ready_ns, 0) <= end_ns AND s.ts + s.dur >= start_ns
  )
SELECT
  -- Recording.
  trace_id,
  -- Name of the process; null if not recorded.
  process,
  -- Priority as recorded; null if not recorded.
  priority,
  -- Threads that ran at it.
  count(DISTINCT utid) AS threads,
  -- Running time, ns. A priority applies until the next recorded change. (no bounds)
  sum(run_ns)::BIGINT AS run_ns,
  -- Ready time before these slices, ns; null if none is known. (no bounds)
  sum(ready_ns)::BIGINT AS ready_ns,
  -- Ready time as a share of running and ready time, percent; null if none is known. (no bounds)
  100.0 * sum(ready_ns) / nullif(sum(run_ns) + sum(ready_ns), 0) AS ready_pct,
  -- Switch-ins. (no bounds)
  count(*) FILTER (WHERE begins) AS switches_in,
  -- Median of the known ready times before a switch-in, ns. (no bounds)
  (quantile_disc(whole_ready_ns, [0.5, 0.99]) FILTER (WHERE begins))[1] AS ready_p50_ns,
  -- 99th percentile of the known ready times, ns. (no bounds)
  (quantile_disc(whole_ready_ns, [0.5, 0.99]) FILTER (WHERE begins))[2] AS ready_p99_ns,
  -- Longest known ready time before a switch-in, ns. (no bounds)
  max(whole_ready_ns) FILTER (WHERE begins) AS ready_max_ns,
FROM slice
GROUP BY trace_id, process, priority
ORDER BY trace_id, run_ns DESC, process, priority;
