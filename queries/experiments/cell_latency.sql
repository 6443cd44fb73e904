-- Latency percentiles of the cells of an experiment: all requests (or frames) of a cell's repeats
-- together, with the confidence interval over the repeats. A percentile with fewer than 10 requests
-- beyond it is null. Latencies come from buckets at most 1/64 wide; each is the upper end of its
-- bucket.
-- p_trace_id: only this recording; null for all.
WITH
  cell AS (FROM judged_cell(p_trace_id)),
  bucket_sum AS (
    SELECT
      c.experiment,
      c.cell,
      c.is_disturbed,
      l.trace_id,
      l.bucket_ns,
      sum(l.requests)::BIGINT AS requests,
    FROM worker_latency AS l
    JOIN cell AS c USING (trace_id)
    GROUP BY c.experiment, c.cell, c.is_disturbed, l.trace_id, l.bucket_ns
  ),
  wanted AS (
    SELECT unnest([50.0, 90.0, 99.0, 99.9, 99.99, 99.999]::DOUBLE[]) AS percentile
  ),
  ends AS (
    SELECT experiment, cell, percentile, list_sort(list(latency_ns)) AS kept, count(*) AS repeats
    FROM run_latency(p_trace_id)
    GROUP BY experiment, cell, percentile
  ),
  all_runs AS (
    SELECT
      experiment,
      cell,
      bucket_ns,
      any_value(is_disturbed) AS is_disturbed,
      sum(sum(requests)) OVER (PARTITION BY experiment, cell ORDER BY bucket_ns) AS so_far,
      sum(sum(requests)) OVER (PARTITION BY experiment, cell) AS total,
    FROM bucket_sum
    GROUP BY experiment, cell, bucket_ns
  ),
  pooled AS (
    SELECT
      experiment,
      cell,
      percentile,
      any_value(total)::BIGINT AS requests,
      any_value(is_disturbed) AS is_disturbed,
      min(bucket_ns) FILTER (WHERE so_far >= total * percentile / 100) AS ns,
    FROM all_runs, wanted
    GROUP BY experiment, cell, percentile
  )
SELECT
  -- Experiment.
  pooled.experiment,
  -- Name of the cell.
  pooled.cell,
  -- Percentile: 50, 90, 99, 99.9, 99.99 or 99.999.
  pooled.percentile,
  -- Latency that this percentage of the requests does not exceed, ns; null if fewer than 10
  -- requests are beyond it. (exact)
  CASE
    WHEN pooled.requests * (1 - pooled.percentile / 100) >= 10 THEN pooled.ns
  END AS latency_ns,
  -- Lower end of its confidence interval over the repeats, ns; null if no single repeat has enough
  -- requests. (exact)
  ends.kept[r.low_rank] AS low_ns,
  -- Upper end of its confidence interval, ns. (exact)
  ends.kept[r.high_rank] AS high_ns,
  -- Confidence of the interval, percent.
  r.coverage_pct,
  -- Repeats used for the interval.
  coalesce(ends.repeats, 0) AS repeats,
  -- Requests (or frames) of all repeats together.
  pooled.requests,
  -- Whether every repeat was disturbed; otherwise disturbed repeats are left out.
  pooled.is_disturbed,
FROM pooled
LEFT JOIN ends USING (experiment, cell, percentile)
LEFT JOIN median_rank() AS r ON r.n = ends.repeats
ORDER BY pooled.experiment, pooled.cell, pooled.percentile;
