-- Distributions over all recordings, by machine, machine class, CPU model or build: counts and sums are exact, quantiles come from merged sketches.
-- p_metric: only ready_ns, slice_ns or frame_ns; null for all.
-- p_by ['machine']: machine, class, cpu_model, build, or all.
WITH
  labelled AS (
    SELECT
      s.*,
      CASE coalesce(p_by, 'machine')
        WHEN 'machine' THEN m.machine
        WHEN 'class' THEN concat_ws(', ', m.cpu_model, coalesce(m.cores, m.cpus || ' CPUs'), m.os)
        WHEN 'cpu_model' THEN m.cpu_model
        WHEN 'build' THEN m.build
        WHEN 'all' THEN 'all'
        ELSE error('p_by is machine, class, cpu_model, build or all')
      END AS name,
    FROM sketch AS s
    JOIN manifest AS m USING (trace_id)
    WHERE p_metric IS NULL OR s.metric = p_metric
  ),
  merged AS (
    SELECT
      metric,
      name,
      count(*) AS recordings,
      sum(count)::BIGINT AS count,
      sum(sum_ns)::BIGINT AS sum_ns,
      min(min_ns) AS min_ns,
      max(max_ns) AS max_ns,
      sketch_quantiles(list(sketch), [0.5, 0.9, 0.99, 0.999]) AS quantiles,
    FROM labelled
    GROUP BY metric, name
  )
SELECT
  -- ready_ns: before each slice; slice_ns: length of each slice; frame_ns: length of each frame.
  metric,
  -- Machine, class, CPU model or build; null if not known.
  name,
  -- Recordings with values.
  recordings,
  -- Values.
  count,
  -- Their sum, ns. (at least)
  sum_ns,
  -- Smallest value, ns. (no bounds)
  min_ns,
  -- Median, ns; as all quantiles here, its rank is off by at most rank_error_pct. (no bounds)
  quantiles[1] AS p50_ns,
  -- 90th percentile, ns. (no bounds)
  quantiles[2] AS p90_ns,
  -- 99th percentile, ns. (no bounds)
  quantiles[3] AS p99_ns,
  -- 99.9th percentile, ns; an error of the rank of 0.68 points makes it a rough value. (no bounds)
  quantiles[4] AS p999_ns,
  -- Largest value, ns. (at least)
  max_ns,
  -- Error of the rank of a quantile at 99 % confidence, percentage points: a p50 is between the true p49.3 and p50.7.
  100 * sketch_rank_error() AS rank_error_pct,
FROM merged
ORDER BY metric, sum_ns DESC, name;
