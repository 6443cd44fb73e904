-- Cgroups that have a CPU quota, were throttled in the step, or may have been: what the system
-- counted in the step, and what the trace shows of their threads in the window. A cgroup includes
-- all threads that were read in it at any time.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  step AS (
    SELECT trace_id, max(ts) - min(ts) AS step_ns
    FROM snapshot_cgroup
    JOIN span USING (trace_id)
    WHERE edge IN ('begin', 'end')
    GROUP BY trace_id
  ),
  member AS (
    SELECT trace_id, utid, cgroup FROM snapshot_thread JOIN span USING (trace_id)
    UNION
    SELECT trace_id, utid, cgroup FROM thread_cgroup JOIN span USING (trace_id)
  ),
  -- A cgroup in which a thread was seen and that was never read gets a row of unknowns.
  reading AS (
    SELECT trace_id, cgroup, ts, edge, usage_ns, throttled_ns, nr_throttled, quota_ns, period_ns
    FROM snapshot_cgroup
    JOIN span USING (trace_id)
    UNION ALL
    SELECT DISTINCT trace_id, cgroup, NULL::BIGINT, NULL, NULL, NULL, NULL, NULL, NULL
    FROM member
    WHERE cgroup IS NOT NULL
  ),
  edge AS (
    SELECT
      trace_id,
      cgroup,
      count(*) FILTER (WHERE edge = 'begin') > 0 AND count(*) FILTER (WHERE edge = 'end') > 0
        AS is_complete,
      max(usage_ns) FILTER (WHERE edge IN ('end', 'last'))
        - max(usage_ns) FILTER (WHERE edge = 'begin') AS usage_ns,
      max(throttled_ns) FILTER (WHERE edge IN ('end', 'last'))
        - max(throttled_ns) FILTER (WHERE edge = 'begin') AS throttled_ns,
      max(nr_throttled) FILTER (WHERE edge IN ('end', 'last'))
        - max(nr_throttled) FILTER (WHERE edge = 'begin') AS throttled_periods,
      arg_max(quota_ns, ts) AS quota_ns,
      arg_max(period_ns, ts) AS period_ns,
    FROM reading
    GROUP BY trace_id, cgroup
  ),
  waited AS (
    SELECT
      r.utid,
      sum(clipped_ns(r.ts, r.dur, start_ns, end_ns)) AS ready_ns,
      sum(clipped_ns(r.ts, r.dur, start_ns, end_ns))
        FILTER (WHERE r.throttled OR r.cgroup_throttled) AS throttled_ns,
    FROM ready_slice AS r
    JOIN span USING (trace_id)
    WHERE r.ts <= end_ns AND r.ts + r.dur >= start_ns
    GROUP BY r.utid
  ),
  traced AS (
    SELECT
      member.trace_id,
      member.cgroup,
      count(*) AS threads,
      sum(waited.ready_ns)::BIGINT AS ready_ns,
      coalesce(sum(waited.throttled_ns), 0)::BIGINT AS ready_throttled_ns,
    FROM member
    LEFT JOIN waited USING (utid)
    WHERE member.utid IS NOT NULL AND member.cgroup IS NOT NULL
    GROUP BY member.trace_id, member.cgroup
  )
SELECT
  -- Recording.
  edge.trace_id,
  -- Path of the cgroup.
  edge.cgroup,
  -- CPU quota in logical CPUs (quota / period); null: none, or never read.
  edge.quota_ns::DOUBLE / nullif(edge.period_ns, 0) AS quota_cpus,
  -- Length of the step between the two snapshots, ns. (exact)
  step.step_ns,
  -- Whether its counters were read at both edges of the step (or it was created within the step).
  -- False: it ended within the step, and usage and throttled time are those of its last reading;
  -- or it was never read, and they are null.
  edge.is_complete,
  -- CPU time it used in the step, ns. (at least)
  edge.usage_ns,
  -- usage_ns in logical CPUs.
  edge.usage_ns::DOUBLE / nullif(step.step_ns, 0) AS used_cpus,
  -- Time its threads were throttled in the step, as the system counts it (summed over its run
  -- queues), ns; null if unknown. (at least)
  edge.throttled_ns,
  -- Periods in which they were throttled; null if unknown.
  edge.throttled_periods,
  -- Its threads in the trace.
  coalesce(traced.threads, 0) AS threads,
  -- Ready time of these threads in the window, ns; null if there are none. (at least)
  traced.ready_ns,
  -- Part of ready_ns in which the thread had switched out runnable to the idle thread, or the
  -- cgroup's throttled time grew in the step, ns; null if the trace shows none of its threads.
  -- (at least)
  traced.ready_throttled_ns,
FROM edge
LEFT JOIN step ON step.trace_id = edge.trace_id
LEFT JOIN traced ON traced.trace_id = edge.trace_id AND traced.cgroup = edge.cgroup
WHERE edge.quota_ns IS NOT NULL OR edge.throttled_ns > 0 OR edge.throttled_periods > 0
  OR (NOT edge.is_complete AND traced.threads > 0)
ORDER BY edge.trace_id, edge.throttled_ns DESC NULLS LAST, edge.cgroup;
