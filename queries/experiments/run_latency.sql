-- Latency percentiles of each measurement of an experiment, over all its workers. A percentile with
-- fewer than 10 requests beyond it is left out, and disturbed repeats if their cell has others.
-- No rows without: worker_latency, experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  cell AS (FROM judged_cell(p_trace_id)),
  wanted AS (
    SELECT unnest([50.0, 90.0, 99.0, 99.9, 99.99, 99.999]::DOUBLE[]) AS percentile
  ),
  so_far AS (
    SELECT
      trace_id,
      bucket_ns,
      sum(sum(requests)) OVER (PARTITION BY trace_id ORDER BY bucket_ns) AS so_far,
      sum(sum(requests)) OVER (PARTITION BY trace_id) AS total,
    FROM worker_latency
    SEMI JOIN cell USING (trace_id)
    GROUP BY trace_id, bucket_ns
  )
SELECT
  -- Recording of the measurement.
  cell.trace_id,
  -- Experiment.
  cell.experiment,
  -- Name of the cell.
  cell.cell,
  -- Number of the repeat.
  cell.repeat,
  -- Percentile: 50, 90, 99, 99.9, 99.99 or 99.999.
  wanted.percentile,
  -- Latency: the upper end of its bucket, ns. (exact)
  min(s.bucket_ns)::BIGINT AS latency_ns,
FROM so_far AS s
JOIN cell ON cell.trace_id = s.trace_id
JOIN wanted
  ON s.so_far >= s.total * wanted.percentile / 100
  AND s.total * (1 - wanted.percentile / 100) >= 10
GROUP BY cell.trace_id, cell.experiment, cell.cell, cell.repeat, wanted.percentile
ORDER BY cell.experiment, cell.cell, cell.repeat, wanted.percentile;
