-- The experiment `scaling`, table 1 of the articles: one thread on each core, in loops of one, two
-- and three multiplications. CPU use as the system reports it, work done relative to what the cores
-- could do with their second threads, and use of the multipliers; medians over the repeats.
-- p_trace_id: only this recording; null for all.
WITH
  ran AS (
    SELECT c.cell, r.*
    FROM experiment_cell AS c
    JOIN reported_vs_real() AS r USING (trace_id)
    WHERE c.experiment = 'scaling' AND c.place = 'table'
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  )
SELECT
  -- Kernel: imul1, imul2 or imul3.
  workload,
  -- Workers, one on each core.
  any_value(threads) AS threads,
  -- Repeats used for these numbers.
  count(*)::INTEGER AS repeats,
  -- Busy share of all logical CPUs as the system counts it, percent; null without snapshots.
  -- (exact)
  median(reported_busy_pct) AS reported_busy_pct,
  -- Work done in percent of what the cores could do (smt_headroom_work_pct), lower bound.
  -- (no bounds)
  median(work_low_pct) AS work_low_pct,
  -- The same, upper bound. (no bounds)
  median(work_high_pct) AS work_high_pct,
  -- Where the yield Y comes from.
  any_value(yield_basis) AS yield_basis,
  -- Share of the multipliers' issue slots in use over all cores, percent. (no bounds)
  median(port_pct) AS port_pct,
  -- What port_pct is based on.
  any_value(port_basis) AS port_basis,
FROM ran
GROUP BY workload
ORDER BY workload;
