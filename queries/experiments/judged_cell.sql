-- The measurements of experiments that are judged: without disturbed repeats, if their cell has
-- others.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording of the measurement.
  trace_id,
  -- Experiment.
  experiment,
  -- Name of the cell.
  cell,
  -- Number of the repeat.
  repeat,
  -- True if all repeats of the cell were disturbed.
  is_disturbed,
FROM (
  SELECT
    c.trace_id,
    c.experiment,
    c.cell,
    c.repeat,
    coalesce(d.is_disturbed, FALSE) AS of_this,
    bool_and(coalesce(d.is_disturbed, FALSE)) OVER (PARTITION BY c.experiment, c.cell)
      AS is_disturbed,
  FROM experiment_cell AS c
  LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
  WHERE p_trace_id IS NULL OR c.trace_id = p_trace_id
)
WHERE is_disturbed OR NOT of_this
ORDER BY experiment, cell, repeat, trace_id;
