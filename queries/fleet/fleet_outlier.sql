-- Machines that differ from the others of their class: robust z-scores of the logarithm of a merged quantile, for classes of at least 5 machines.
-- p_metric: only ready_ns, slice_ns or frame_ns; null for all.
-- p_rank [0.99]: which quantile of each machine, from 0 to 1.
-- p_min_score [3.5]: smallest absolute score.
WITH
  machine_value AS (
    SELECT
      concat_ws(', ', m.cpu_model, coalesce(m.cores, m.cpus || ' CPUs'), m.os) AS class,
      m.machine,
      s.metric,
      count(*) AS recordings,
      max(s.trace_id) AS trace_id,
      sketch_quantiles(list(s.sketch), [coalesce(p_rank, 0.99)::DOUBLE])[1] AS quantile_ns,
    FROM sketch AS s
    JOIN manifest AS m USING (trace_id)
    WHERE p_metric IS NULL OR s.metric = p_metric
    GROUP BY ALL
  ),
  usual AS (
    SELECT
      class,
      metric,
      count(*) AS machines,
      median(quantile_ns) AS median_ns,
      median(ln(greatest(quantile_ns, 1))) AS center,
      -- Below 1 %, machines do not differ in a way that matters.
      greatest(mad(ln(greatest(quantile_ns, 1))), 0.01) AS spread,
    FROM machine_value
    GROUP BY class, metric
    HAVING count(*) >= 5
  ),
  scored AS (
    SELECT
      *,
      -- The factor makes it a number of standard deviations for a normal distribution.
      0.6745 * (ln(greatest(quantile_ns, 1)) - center) / spread AS score,
    FROM machine_value
    JOIN usual USING (class, metric)
  )
SELECT
  -- Machine class.
  class,
  -- ready_ns, slice_ns or frame_ns.
  metric,
  -- Machine.
  machine,
  -- Its recordings.
  recordings,
  -- Machines of its class.
  machines,
  -- The quantile over all its recordings, ns. (no bounds)
  quantile_ns,
  -- Median of that quantile over the machines of its class, ns. (no bounds)
  median_ns,
  -- Robust z-score; positive: slower than the others.
  score,
  -- One of its recordings.
  trace_id,
FROM scored
WHERE abs(score) >= coalesce(p_min_score, 3.5)
ORDER BY abs(score) DESC, class, metric, machine;
