-- Which threads ran, approximately: the samples of each thread in the window as a share of those of
-- all CPUs. It answers what context switches answer exactly, for recordings without them.
-- No rows without: sample.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  -- What is sampled at equal intervals of time. Other events happen more often in some code.
  timed AS (
    SELECT s.trace_id, s.utid, s.cpu, s.event, s.period
    FROM sample AS s
    JOIN analysis_span(p_trace_id, p_from_ns, p_to_ns) AS span ON span.trace_id = s.trace_id
    WHERE s.ts BETWEEN span.start_ns AND span.end_ns
      AND s.event IN ('SampledProfile', 'cpu-clock', 'task-clock')
  ),
  counted AS (
    SELECT
      trace_id,
      utid,
      count(*) AS samples,
      count(DISTINCT cpu) AS cpus,
      CASE WHEN count(period) = count(*) THEN sum(period)::BIGINT END AS running_ns,
    FROM timed
    WHERE utid IS NOT NULL
    GROUP BY trace_id, utid
  ),
  total AS (
    SELECT
      trace_id,
      count(*) AS samples,
      -- perf takes no samples of idle CPUs, so its samples are not those of all time.
      bool_or(t.is_idle) AS has_idle,
    FROM timed
    LEFT JOIN thread AS t USING (trace_id, utid)
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  who.utid,
  -- Samples of the thread.
  counted.samples,
  -- Logical CPUs on which it was sampled.
  counted.cpus,
  -- Approximate running time, ns: the sum of the sampling intervals; null if they are not recorded.
  -- (no bounds)
  counted.running_ns,
  -- Half of the 95 % interval of this number, if samples hit the thread at random, ns. (no bounds)
  (1.96 * sqrt(counted.samples) * counted.running_ns / counted.samples)::BIGINT AS error_ns,
  -- Share of the time of all CPUs, percent; null if idle CPUs were not sampled. (no bounds)
  CASE WHEN total.has_idle THEN 100.0 * counted.samples / total.samples END AS cpu_pct,
FROM counted
JOIN total USING (trace_id)
JOIN who ON who.utid = counted.utid
ORDER BY who.trace_id, counted.samples DESC, who.utid;
