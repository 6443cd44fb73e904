-- The clock in each cell of the experiments, measured with 64 dependent additions: right before and
-- right after its interval, over its workers and repeats, and how often it changed by more than 2 %.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  measured AS (
    SELECT
      c.experiment,
      c.cell,
      c.repeat,
      median(w.ghz_before) AS ghz_start,
      median(w.ghz_after) AS ghz_end,
      arg_max(
        100.0 * (w.ghz_after / nullif(w.ghz_before, 0) - 1),
        abs(w.ghz_after / nullif(w.ghz_before, 0) - 1)
      ) AS drift_pct,
    FROM experiment_cell AS c
    JOIN experiment_worker AS w ON w.trace_id = c.trace_id
    WHERE w.ghz_before IS NOT NULL AND w.ghz_after IS NOT NULL
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
    GROUP BY c.trace_id, c.experiment, c.cell, c.repeat
  )
SELECT
  -- Experiment.
  experiment,
  -- Name of the cell, the same in every repeat.
  cell,
  -- Repeats with a known clock.
  count(*)::INTEGER AS repeats,
  -- Clock before the interval, GHz, median.
  median(ghz_start) AS ghz_start,
  -- Clock after it, GHz, median.
  median(ghz_end) AS ghz_end,
  -- Largest change of a worker's clock from the one to the other, percent.
  arg_max(drift_pct, abs(drift_pct)) AS drift_pct,
  -- Repeats in which the clock of a worker changed by more than 2 %.
  (count(*) FILTER (WHERE abs(drift_pct) > 2))::INTEGER AS drifting,
FROM measured
GROUP BY experiment, cell
ORDER BY experiment, cell;
