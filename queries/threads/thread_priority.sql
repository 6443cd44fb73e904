-- At which priorities each thread ran and was ready, and which share of its running time each one
-- has. A slice and the ready time before it count at the priority of its switch-in.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  spent AS (
    SELECT
      s.utid,
      s.priority,
      sum(greatest(0, clipped_ns(s.ts, s.dur, start_ns, end_ns)))::BIGINT AS run_ns,
      -- overlap_ns() ignores NULL.
      sum(
        CASE WHEN s.ready_ns IS NOT NULL THEN
          greatest(0, overlap_ns(s.ts - s.ready_ns, s.ts, start_ns, end_ns))
        END
      )::BIGINT AS ready_ns,
      count(*) FILTER (WHERE s.ts BETWEEN start_ns AND end_ns AND NOT s.left_censored)
        AS switches_in,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    WHERE NOT s.is_idle AND s.ts - coalesce(s.ready_ns, 0) <= end_ns AND s.ts + s.dur >= start_ns
    GROUP BY s.utid, s.priority
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
  -- Priority as recorded; null if not recorded.
  spent.priority,
  -- Running time at it, ns. A priority applies until the next recorded change. (no bounds)
  spent.run_ns,
  -- run_ns as a share of the thread's running time in the window, percent. (no bounds)
  100.0 * spent.run_ns / nullif(sum(spent.run_ns) OVER (PARTITION BY who.utid), 0) AS of_thread_pct,
  -- Ready time before these slices, ns; null if none is known. (no bounds)
  spent.ready_ns,
  -- Switch-ins at it. (no bounds)
  spent.switches_in,
FROM spent
JOIN who ON who.utid = spent.utid
ORDER BY who.trace_id, who.utid, spent.run_ns DESC, spent.priority;
