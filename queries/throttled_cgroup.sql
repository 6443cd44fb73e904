-- Cgroups with a CPU quota, or that were throttled in the step: what the system counted between
-- the two snapshots, and what the trace shows of their threads in the window.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  edge AS (
    SELECT
      trace_id,
      cgroup,
      max(ts) FILTER (WHERE edge = 'end') - max(ts) FILTER (WHERE edge = 'begin') AS step_ns,
      max(usage_ns) FILTER (WHERE edge = 'end')
        - max(usage_ns) FILTER (WHERE edge = 'begin') AS usage_ns,
      max(throttled_ns) FILTER (WHERE edge = 'end')
        - max(throttled_ns) FILTER (WHERE edge = 'begin') AS throttled_ns,
      max(nr_throttled) FILTER (WHERE edge = 'end')
        - max(nr_throttled) FILTER (WHERE edge = 'begin') AS throttled_periods,
      arg_max(quota_ns, ts) AS quota_ns,
      arg_max(period_ns, ts) AS period_ns,
    FROM snapshot_cgroup
    JOIN span USING (trace_id)
    GROUP BY trace_id, cgroup
  ),
  member AS (
    SELECT DISTINCT trace_id, utid, cgroup
    FROM snapshot_thread
    JOIN span USING (trace_id)
    WHERE utid IS NOT NULL AND cgroup IS NOT NULL
  ),
  held AS (
    SELECT
      r.utid,
      sum(least(r.ts + r.dur, end_ns) - greatest(r.ts, start_ns)) AS ready_ns,
      sum(least(r.ts + r.dur, end_ns) - greatest(r.ts, start_ns))
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
      sum(held.ready_ns)::BIGINT AS ready_ns,
      coalesce(sum(held.throttled_ns), 0)::BIGINT AS ready_throttled_ns,
    FROM member
    LEFT JOIN held USING (utid)
    GROUP BY member.trace_id, member.cgroup
  )
SELECT
  -- Recording.
  edge.trace_id,
  -- Path of the cgroup.
  edge.cgroup,
  -- CPU quota in logical CPUs (quota / period); null: none.
  edge.quota_ns::DOUBLE / nullif(edge.period_ns, 0) AS quota_cpus,
  -- Length of the step between the two snapshots, ns. (exact)
  edge.step_ns,
  -- CPU time it used in the step, ns. (exact)
  edge.usage_ns,
  -- The same in logical CPUs.
  edge.usage_ns::DOUBLE / nullif(edge.step_ns, 0) AS used_cpus,
  -- Time its threads were held back in the step, as the system counts it (added up over its run
  -- queues), ns; null if not told. (exact)
  edge.throttled_ns,
  -- Periods in which they were.
  edge.throttled_periods,
  -- Threads of it that the trace shows.
  coalesce(traced.threads, 0) AS threads,
  -- Ready time of these in the window, ns; null if none. (at least)
  traced.ready_ns,
  -- Of it: in which the thread had left runnable to the idle thread, or the cgroup's throttled
  -- time grew in the step, ns; null if none of its threads is shown. (at least)
  traced.ready_throttled_ns,
FROM edge
LEFT JOIN traced ON traced.trace_id = edge.trace_id AND traced.cgroup = edge.cgroup
WHERE edge.quota_ns IS NOT NULL OR edge.throttled_ns > 0 OR edge.throttled_periods > 0
ORDER BY edge.trace_id, edge.throttled_ns DESC NULLS LAST, edge.cgroup;
