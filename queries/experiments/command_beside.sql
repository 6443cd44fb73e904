-- The experiment `pairs` with a user's program: how much longer the program takes alongside a
-- kernel than alone, and the kernel alongside the program. Medians over the repeats with confidence
-- intervals.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  ran AS (
    SELECT
      c.trace_id,
      c.cell,
      c.place,
      c.repeat,
      c.command_ns,
      w.label,
      w.slowdown AS kernel_slowdown,
      coalesce(d.is_disturbed, FALSE) AS is_disturbed,
    FROM experiment_cell AS c
    LEFT JOIN pair_worker() AS w ON w.trace_id = c.trace_id
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'pairs' AND c.load = 'command'
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  ),
  alone AS (
    SELECT repeat, median(command_ns) AS ns
    FROM ran
    WHERE place = 'alone'
    GROUP BY repeat
  ),
  paired AS (
    SELECT
      ran.cell,
      ran.place,
      ran.label,
      ran.command_ns,
      alone.ns AS alone_ns,
      ran.command_ns / nullif(alone.ns, 0) AS slowdown,
      ran.kernel_slowdown,
    FROM ran
    LEFT JOIN alone ON alone.repeat = ran.repeat
    WHERE ran.place <> 'alone'
  ),
  measured AS (
    SELECT
      cell,
      any_value(place) AS place,
      any_value(label) AS kernel,
      count(slowdown) AS n,
      median(command_ns)::BIGINT AS command_ns,
      median(alone_ns)::BIGINT AS alone_ns,
      list_sort(list(slowdown) FILTER (WHERE slowdown IS NOT NULL)) AS slower,
      median(kernel_slowdown) AS kernel_slowdown,
    FROM paired
    GROUP BY cell
  )
SELECT
  -- Relation of the program's CPU to the kernel's CPU.
  place,
  -- Kernel that ran alongside the program, with its variant if one was chosen.
  kernel,
  -- Repeats used for these numbers.
  measured.n::INTEGER AS repeats,
  -- Run time of the program alone, ns; null if it did not finish in the time allowed. (exact)
  alone_ns,
  -- Run time of the program alongside the kernel, ns. (exact)
  command_ns,
  -- How many times longer the program takes alongside the kernel; null if either time is unknown.
  list_median(slower) AS slowdown,
  -- Lower end of its confidence interval.
  slower[r.low_rank] AS slowdown_low,
  -- Upper end of its confidence interval.
  slower[r.high_rank] AS slowdown_high,
  -- Confidence of the interval, percent.
  r.coverage_pct,
  -- How many times longer the kernel's work takes alongside the program.
  kernel_slowdown,
FROM measured
LEFT JOIN median_rank() AS r ON r.n = measured.n
ORDER BY place, kernel;
