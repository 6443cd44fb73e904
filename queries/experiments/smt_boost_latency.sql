-- The experiment `smt-boost`: how much each state changes the latency of requests at each
-- percentile, against the state with both off (or the one nearest to it) under the same load. The
-- median over the repeats, each compared with the same repeat of the other cell, with its interval.
-- No rows without: worker_latency, experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  measured AS (
    SELECT r.*, c.load, c.smt, c.boost
    FROM run_latency(p_trace_id) AS r
    JOIN experiment_cell AS c USING (trace_id)
    WHERE r.experiment = 'smt-boost'
  ),
  base AS (
    SELECT DISTINCT load, first_value(cell) OVER same_load AS cell
    FROM measured
    -- `off` sorts before `on`.
    WINDOW same_load AS (PARTITION BY load ORDER BY smt NULLS FIRST, boost NULLS FIRST)
  ),
  gain AS (
    SELECT
      m.cell,
      any_value(m.load) AS load,
      any_value(m.smt) AS smt,
      any_value(m.boost) AS boost,
      m.percentile,
      median(m.latency_ns)::BIGINT AS latency_ns,
      list_sort(list(100.0 * (m.latency_ns / b.latency_ns::DOUBLE - 1))) AS pct,
    FROM measured AS m
    JOIN base ON base.load = m.load
    JOIN measured AS b
      ON b.cell = base.cell AND b.repeat = m.repeat AND b.percentile = m.percentile
    GROUP BY m.cell, m.percentile
  )
SELECT
  -- Name of the cell.
  gain.cell,
  -- closed or open: whether the next request follows at once, or arrives at random.
  gain.load,
  -- SMT: off or on; null: unchanged.
  gain.smt,
  -- Boost: off or on; null: unchanged.
  gain.boost,
  -- Percentile: 50, 90, 99, 99.9, 99.99 or 99.999.
  gain.percentile,
  -- Median of the latency over the repeats, ns. (exact)
  gain.latency_ns,
  -- Increase in latency over the cell with both off, percent.
  list_median(gain.pct) AS latency_gain_pct,
  -- Lower end of its confidence interval.
  gain.pct[r.low_rank] AS latency_gain_low_pct,
  -- Upper end of its confidence interval.
  gain.pct[r.high_rank] AS latency_gain_high_pct,
  -- Confidence of the interval, percent.
  r.coverage_pct,
FROM gain
LEFT JOIN median_rank() AS r ON r.n = len(gain.pct)
ORDER BY gain.load, gain.smt NULLS FIRST, gain.boost NULLS FIRST, gain.percentile;
