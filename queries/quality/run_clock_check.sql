-- Running time of each worker in the trace over its measured interval, compared with its own CPU
-- clock. A stolen virtual CPU looks busy in the trace while the thread's clock stops, so the trace
-- must show the CPU time plus the worker's share of the steal.
-- No rows without: run_worker.
-- p_trace_id: only this recording; null for all.
WITH
  worker AS (
    SELECT *
    FROM run_worker
    WHERE utid IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  here AS (
    SELECT
      w.trace_id,
      w.utid,
      s.cpu,
      sum(clipped_ns(s.ts, s.dur, w.start_ns, w.end_ns)) AS run_ns,
    FROM sched_slice AS s
    JOIN worker AS w ON w.utid = s.utid
    WHERE s.ts <= w.end_ns AND s.ts + s.dur >= w.start_ns
    GROUP BY w.trace_id, w.utid, s.cpu
  ),
  -- Steal affects whichever thread is on the virtual CPU, so it is shared out by busy time on that
  -- CPU over the step.
  busy AS (
    SELECT
      c.trace_id,
      c.cpu,
      sum(clipped_ns(c.ts, c.dur, run.start_ns, run.end_ns)) AS busy_ns,
    FROM cpu_state AS c
    JOIN run USING (trace_id)
    WHERE c.state IN ('thread', 'interrupt') AND c.ts <= run.end_ns AND c.ts + c.dur >= run.start_ns
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
    GROUP BY c.trace_id, c.cpu
  ),
  taken AS (
    SELECT
      here.utid,
      sum(here.run_ns)::BIGINT AS run_ns,
      sum(steal.steal_ns)::BIGINT AS steal_ns,
      sum(steal.steal_ns * least(1.0, here.run_ns / nullif(busy.busy_ns, 0)))
        FILTER (WHERE busy.busy_ns > 0) AS steal_share_ns,
    FROM here
    LEFT JOIN busy ON busy.trace_id = here.trace_id AND busy.cpu = here.cpu
    LEFT JOIN steal(p_trace_id) AS steal
      ON steal.trace_id = here.trace_id AND steal.cpu = here.cpu AND here.run_ns > 0
    GROUP BY here.utid
  ),
  checked AS (
    SELECT
      worker.*,
      coalesce(taken.run_ns, 0) AS run_ns,
      taken.steal_ns,
      taken.steal_share_ns,
    FROM worker
    LEFT JOIN taken USING (utid)
  )
SELECT
  -- Recording.
  trace_id,
  -- Number of the worker, from 0.
  worker,
  -- Its thread.
  utid,
  -- Its thread id.
  tid,
  -- Length of its measured interval, ns. (exact)
  (end_ns - start_ns)::BIGINT AS interval_ns,
  -- Its running time in the trace over that interval, ns. (at least)
  run_ns,
  -- Growth of its own CPU clock over that interval, ns. (exact)
  cpu_time_ns,
  -- Steal of the CPUs it ran on, over the whole step, ns: at most this much affected it. Null if
  -- the system does not report it. (exact)
  steal_ns,
  -- Part of steal_ns attributed to this worker by its share of the busy time of those CPUs, ns.
  -- (no bounds)
  steal_share_ns::BIGINT AS steal_share_ns,
  -- Running time in the trace beyond CPU time plus its share of steal, ns; negative: less.
  -- (no bounds)
  (run_ns - cpu_time_ns - coalesce(steal_share_ns, 0))::BIGINT AS diff_ns,
  -- The same in percent of CPU time plus its share of steal. (no bounds)
  100.0 * (run_ns - cpu_time_ns - coalesce(steal_share_ns, 0))
    / nullif(cpu_time_ns + coalesce(steal_share_ns, 0), 0) AS diff_pct,
  -- How far the trace is below the CPU time, or above CPU time plus all steal, percent of the CPU
  -- time; 0 between the two. (no bounds)
  100.0 * (
    least(0, run_ns - cpu_time_ns) + greatest(0, run_ns - cpu_time_ns - coalesce(steal_ns, 0))
  ) / nullif(cpu_time_ns, 0) AS outside_pct,
FROM checked
ORDER BY trace_id, worker;
