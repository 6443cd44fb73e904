-- What disturbed each step of a workload: other programs on the CPUs its workers ran on, time the
-- hypervisor took, and CPU stalls that nothing reported.
-- No rows without: run.
-- Few rows, which other questions read.
-- p_trace_id: only this step; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  step AS (
    SELECT run.trace_id, run.step, start_ns, end_ns, dur_ns
    FROM (SELECT trace_id, step FROM run WHERE workload IS NOT NULL) AS run
    JOIN span USING (trace_id)
  ),
  own AS (
    SELECT DISTINCT w.trace_id, t.upid
    FROM run_worker AS w
    JOIN thread AS t ON t.utid = w.utid
    WHERE t.upid IS NOT NULL
  ),
  slice AS (
    SELECT
      c.trace_id,
      c.cpu,
      c.utid,
      own.upid IS NOT NULL OR w.utid IS NOT NULL AS is_own,
      w.utid IS NOT NULL AS is_worker,
      clipped_ns(c.ts, c.dur, step.start_ns, step.end_ns) AS ns,
    FROM cpu_state AS c
    JOIN step USING (trace_id)
    JOIN thread AS t ON t.utid = c.utid
    LEFT JOIN own ON own.trace_id = c.trace_id AND own.upid = t.upid
    LEFT JOIN (SELECT DISTINCT utid FROM run_worker) AS w ON w.utid = c.utid
    WHERE c.state = 'thread' AND c.ts < step.end_ns AND c.ts + c.dur > step.start_ns
  ),
  used AS (
    SELECT DISTINCT trace_id, cpu
    FROM slice
    WHERE is_worker
  ),
  cpus AS (SELECT trace_id, count(*) AS cpus FROM used GROUP BY trace_id),
  place AS (
    SELECT trace_id, cpu, arg_max(core, from_ns) AS core
    FROM topology(p_trace_id)
    GROUP BY trace_id, cpu
  ),
  -- SMT siblings of the workers' CPUs on which no worker ran.
  sibling AS (
    SELECT DISTINCT used.trace_id, other.cpu
    FROM used
    JOIN place ON place.trace_id = used.trace_id AND place.cpu = used.cpu
    JOIN place AS other
      ON other.trace_id = place.trace_id AND other.core = place.core AND other.cpu <> place.cpu
    ANTI JOIN used AS own ON own.trace_id = other.trace_id AND own.cpu = other.cpu
  ),
  sibling_busy AS (
    SELECT sibling.trace_id, sibling.cpu, coalesce(sum(slice.ns), 0)::BIGINT AS ns
    FROM sibling
    LEFT JOIN slice ON slice.trace_id = sibling.trace_id AND slice.cpu = sibling.cpu
    GROUP BY sibling.trace_id, sibling.cpu
  ),
  siblings AS (
    SELECT trace_id, sum(ns)::BIGINT AS ns, max(ns) AS busiest_ns
    FROM sibling_busy
    GROUP BY trace_id
  ),
  other AS (
    SELECT slice.trace_id, slice.utid, sum(slice.ns)::BIGINT AS ns
    FROM slice
    JOIN used USING (trace_id, cpu)
    WHERE NOT is_own
    GROUP BY slice.trace_id, slice.utid
  ),
  others AS (
    SELECT
      trace_id,
      sum(ns)::BIGINT AS ns,
      count(*) AS threads,
      max_by(utid, (ns, -utid)) AS utid,
      max(ns) AS longest_ns,
    FROM other
    GROUP BY trace_id
  ),
  taken AS (
    SELECT s.trace_id, max(s.steal_pct) AS steal_pct
    FROM steal(p_trace_id) AS s
    JOIN used USING (trace_id, cpu)
    GROUP BY s.trace_id
  ),
  worked AS (
    SELECT
      trace_id,
      per_s,
      batch_per_s * least(cpu_pct, 100) / 100 AS typical_per_s,
    FROM run_throughput(p_trace_id)
    WHERE status = 'ok'
  ),
  found AS (
    SELECT
      step.*,
      cpus.cpus,
      CASE WHEN cpus.cpus IS NOT NULL THEN coalesce(others.ns, 0) END AS other_ns,
      CASE
        WHEN cpus.cpus IS NOT NULL
          THEN 100.0 * coalesce(others.ns, 0) / nullif(cpus.cpus * step.dur_ns, 0)
      END AS other_pct,
      CASE WHEN cpus.cpus IS NOT NULL THEN coalesce(others.threads, 0) END AS other_threads,
      others.utid AS other_utid,
      others.longest_ns,
      siblings.ns AS sibling_ns,
      100.0 * siblings.busiest_ns / nullif(step.dur_ns, 0) AS sibling_pct,
      taken.steal_pct,
      -- If a clock counts slightly more than the interval, nothing is missing.
      CASE
        WHEN worked.per_s >= worked.typical_per_s THEN 0.0
        ELSE 100.0 * (1 - worked.per_s / nullif(worked.typical_per_s, 0))
      END AS stalled_pct,
    FROM step
    LEFT JOIN cpus USING (trace_id)
    LEFT JOIN others USING (trace_id)
    LEFT JOIN siblings USING (trace_id)
    LEFT JOIN taken USING (trace_id)
    LEFT JOIN worked USING (trace_id)
  )
SELECT
  -- Recording of the step.
  found.trace_id,
  -- Name of the step.
  found.step,
  -- Logical CPUs on which its workers ran in the window; null if the trace shows none.
  found.cpus::INTEGER AS cpus,
  -- Time other programs ran on these CPUs, ns; null if they are not known. (at least)
  found.other_ns,
  -- other_ns as a share of the time of these CPUs, percent. (no bounds)
  found.other_pct,
  -- Threads of other programs that ran there.
  found.other_threads,
  -- Process of the one that ran longest; null if there is none, or if not recorded.
  who.process AS other_process,
  -- Name of that thread; null if there is none.
  who.thread AS other_thread,
  -- Its thread id; null if there is none.
  who.tid AS other_tid,
  -- That thread, unique in the database; null if there is none.
  found.other_utid,
  -- How long it ran there, ns; null if there is none. (at least)
  found.longest_ns,
  -- Time that anything ran on SMT siblings of these CPUs on which no worker was seen, ns; null if
  -- there are none, or if unknown. A worker may have run there in lost time. (no bounds)
  found.sibling_ns,
  -- Busy share of the busiest of these siblings, percent. (no bounds)
  found.sibling_pct,
  -- Largest share of one of these CPUs that the hypervisor took, percent; null if not reported.
  -- (exact)
  found.steal_pct,
  -- Work missing although the workers were on their CPUs, percent: their throughput compared with
  -- that of their median batches over their CPU time. Shows CPUs that were stopped without any
  -- report; null if unknown. (exact)
  found.stalled_pct,
  -- True if its throughput should not be judged: other programs from 2 %, an SMT sibling that is
  -- busy from 2 %, steal from 1 %, unreported stalls from 20 % (undisturbed steps show up to 5 %);
  -- null if none of these is known.
  CASE
    WHEN found.other_pct >= 2 OR found.sibling_pct >= 2 OR found.steal_pct >= 1 OR found.stalled_pct >= 20 THEN TRUE
    WHEN coalesce(found.other_pct, found.steal_pct, found.stalled_pct) IS NOT NULL THEN FALSE
  END AS is_disturbed,
FROM found
LEFT JOIN thread_with_process(p_trace_id, NULL) AS who ON who.utid = found.other_utid
ORDER BY found.trace_id;
