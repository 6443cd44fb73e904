-- The experiment `scaling`: yield Y of the second thread by kernel and core type. Y is the
-- throughput of both siblings of a core divided by that of one alone in the same repeat; the median
-- with its confidence interval. Disturbed repeats are left out if there are others.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  place AS (
    SELECT trace_id, cpu, arg_max(core_type, from_ns) AS core_type
    FROM topology()
    GROUP BY trace_id, cpu
  ),
  ran AS (
    SELECT
      c.repeat,
      c.place,
      run.workload,
      run.variant,
      place.core_type,
      any_value(t.unit) AS unit,
      sum(coalesce(t.batch_per_s, t.per_s)) AS per_s,
      bool_or(coalesce(d.is_disturbed, FALSE)) AS is_disturbed,
    FROM experiment_cell AS c
    JOIN run ON run.trace_id = c.trace_id AND run.status = 'ok'
    JOIN worker_throughput() AS t ON t.trace_id = c.trace_id
    LEFT JOIN place ON place.trace_id = c.trace_id AND place.cpu = t.cpu
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'scaling' AND c.place IN ('alone', 'siblings')
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
    GROUP BY c.trace_id, c.repeat, c.place, run.workload, run.variant, place.core_type
  ),
  matched AS (
    SELECT
      a.workload,
      a.variant,
      a.core_type,
      a.unit,
      a.per_s AS alone_per_s,
      b.per_s AS both_per_s,
      b.per_s / nullif(a.per_s, 0) AS yield,
      a.is_disturbed OR coalesce(b.is_disturbed, FALSE) AS is_disturbed,
    FROM ran AS a
    LEFT JOIN ran AS b
      ON b.place = 'siblings'
      AND b.repeat = a.repeat
      AND b.workload = a.workload
      AND b.variant IS NOT DISTINCT FROM a.variant
      AND b.core_type IS NOT DISTINCT FROM a.core_type
    WHERE a.place = 'alone'
  ),
  judged AS (
    SELECT
      *,
      bool_and(is_disturbed) OVER (PARTITION BY workload, variant, core_type) AS all_disturbed,
    FROM matched
  ),
  measured AS (
    SELECT
      workload,
      variant,
      core_type,
      any_value(unit) AS unit,
      any_value(all_disturbed) AS is_disturbed,
      count(*) AS repeats,
      count(yield) AS n,
      list_sort(list(yield) FILTER (WHERE yield IS NOT NULL)) AS yields,
      median(alone_per_s) AS alone_per_s,
      median(both_per_s) AS both_per_s,
    FROM judged
    WHERE all_disturbed OR NOT is_disturbed
    GROUP BY workload, variant, core_type
  )
SELECT
  -- Kernel.
  workload,
  -- Variant of the kernel; null if it has none.
  variant,
  -- Core type; null if unknown.
  core_type,
  -- Unit of work: bytes or iterations.
  unit,
  -- Y; null if no core of this type has siblings.
  list_median(yields) AS yield,
  -- Lower end of its confidence interval.
  yields[r.low_rank] AS yield_low,
  -- Upper end of its confidence interval.
  yields[r.high_rank] AS yield_high,
  -- Confidence of the interval, percent.
  r.coverage_pct,
  -- Work per second of one worker alone on a core, median.
  alone_per_s,
  -- Work per second of both siblings together, median; null if not measured.
  both_per_s,
  -- Repeats used for these numbers.
  repeats::INTEGER AS repeats,
  -- Whether every repeat was disturbed.
  is_disturbed,
FROM measured
LEFT JOIN median_rank() AS r ON r.n = measured.n
ORDER BY workload, variant, core_type;
