-- What recording cost: throughput of a step with the recorder on, compared with the same plan
-- without it, for the steps where both were measured (the first repeat of each), and how much was
-- recorded. Both throughputs are sums over the workers of the median rate of their batches, which
-- is their rate while they run.
-- No rows without: run.
-- p_trace_id: only this recording; null for all.
WITH
  counted AS (
    SELECT trace_id, sum(count)::BIGINT AS records
    FROM record_count
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    GROUP BY trace_id
  ),
  rate AS (
    SELECT
      trace_id,
      worker,
      CASE WHEN run.overhead_unit = 'bytes' THEN bytes ELSE iterations END::DOUBLE
        / nullif(s.end_ns - s.start_ns, 0) AS per_ns,
    FROM run_sample AS s
    JOIN run USING (trace_id)
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  spread AS (
    SELECT trace_id, avg(pct) AS pct
    FROM (
      SELECT
        trace_id,
        100 * (quantile_cont(per_ns, 0.75) - quantile_cont(per_ns, 0.25))
          / nullif(median(per_ns), 0) AS pct,
      FROM rate
      GROUP BY trace_id, worker
    )
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  run.trace_id,
  -- Name of the step.
  run.step,
  -- Kernel.
  run.workload,
  -- First of the placements that share this plan.
  run.placement,
  -- Workers.
  run.threads,
  -- Unit of work: bytes or iterations.
  run.overhead_unit AS unit,
  -- Work per second without the recorder, all workers together.
  run.baseline_per_s,
  -- Work per second with the recorder, all workers together.
  run.recorded_per_s,
  -- Throughput lost to the recorder, percent; negative if the run with the recorder was faster.
  100.0 * (1 - run.recorded_per_s / nullif(run.baseline_per_s, 0)) AS cost_pct,
  -- Spread of the batches with the recorder: interquartile range in percent of the median, averaged
  -- over the workers. A cost below it is noise. Null without batches.
  spread.pct AS spread_pct,
  -- Records in the recording.
  counted.records,
  -- Records per second of recorded time.
  1e9 * counted.records
    / nullif(trace.duration_ns - coalesce(trace.first_ns, 0), 0) AS records_per_s,
FROM run
JOIN trace USING (trace_id)
LEFT JOIN counted USING (trace_id)
LEFT JOIN spread USING (trace_id)
WHERE run.baseline_per_s IS NOT NULL AND run.recorded_per_s IS NOT NULL
  AND (p_trace_id IS NULL OR run.trace_id = p_trace_id)
ORDER BY run.trace_id;
