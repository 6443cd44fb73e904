-- Latency percentiles of each measurement of an experiment, over all its workers. A percentile with
-- fewer than 10 requests beyond it is left out, and disturbed repeats if their cell has others.
-- No rows without: worker_latency, experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  cell AS (
    SELECT *
    FROM (
      SELECT
        c.trace_id,
        c.experiment,
        c.cell,
        c.repeat,
        coalesce(d.is_disturbed, FALSE) AS is_disturbed,
        bool_and(coalesce(d.is_disturbed, FALSE)) OVER (PARTITION BY c.experiment, c.cell)
          AS all_of_them,
      FROM experiment_cell AS c
      LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
      WHERE p_trace_id IS NULL OR c.trace_id = p_trace_id
    )
    WHERE all_of_them OR NOT is_disturbed
  ),
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
