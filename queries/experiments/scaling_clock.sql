-- The experiment `scaling`: clock and throughput of a thread against the number of cores in use,
-- filling whole cores first, and the power if it can be read. Medians over the repeats with
-- confidence intervals.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  place AS (
    SELECT
      trace_id,
      cpu,
      coalesce(arg_max(core, from_ns), cpu) AS core,
    FROM topology()
    GROUP BY trace_id, cpu
  ),
  joules AS (
    SELECT trace_id, sum(joules) FILTER (WHERE NOT contains(domain, '/')) AS joules
    FROM energy
    GROUP BY trace_id
  ),
  ran AS (
    SELECT
      c.trace_id,
      any_value(run.threads) AS threads,
      count(DISTINCT place.core) AS cores,
      median(e.ghz_after) AS ghz,
      sum(coalesce(t.batch_per_s, t.per_s)) / count(*) AS per_thread_per_s,
      any_value(t.unit) AS unit,
      any_value(1e9 * joules.joules / nullif(c.energy_ns, 0)) AS watts,
      any_value(c.throttles) AS throttles,
      bool_or(coalesce(d.is_disturbed, FALSE)) AS is_disturbed,
    FROM experiment_cell AS c
    JOIN run ON run.trace_id = c.trace_id AND run.status = 'ok'
    JOIN experiment_worker AS e ON e.trace_id = c.trace_id
    JOIN worker_throughput() AS t ON t.trace_id = c.trace_id AND t.worker = e.worker
    LEFT JOIN place ON place.trace_id = c.trace_id AND place.cpu = t.cpu
    LEFT JOIN joules ON joules.trace_id = c.trace_id
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'scaling' AND c.place = 'sweep' AND list_contains(run.placements, 'physical')
      AND NOT run.oversubscribed
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
    GROUP BY c.trace_id
  ),
  judged AS (
    SELECT *, bool_and(is_disturbed) OVER (PARTITION BY threads) AS all_disturbed
    FROM ran
  ),
  measured AS (
    SELECT
      threads,
      any_value(cores) AS cores,
      any_value(unit) AS unit,
      count(*) AS n,
      list_sort(list(ghz)) AS clocks,
      list_sort(list(per_thread_per_s)) AS rates,
      median(watts) AS watts,
      sum(throttles)::BIGINT AS throttles,
      any_value(all_disturbed) AS is_disturbed,
    FROM judged
    WHERE all_disturbed OR NOT is_disturbed
    GROUP BY threads
  )
SELECT
  -- Workers, each on its own core while there are free cores.
  threads,
  -- Cores in use.
  cores,
  -- Clock of a core, GHz, measured with 64 dependent additions right after the interval; median.
  list_median(clocks) AS ghz,
  -- Lower end of its confidence interval.
  clocks[r.low_rank] AS ghz_low,
  -- Upper end of its confidence interval.
  clocks[r.high_rank] AS ghz_high,
  -- Unit of work: bytes or iterations.
  unit,
  -- Work per second of one thread, median.
  list_median(rates) AS per_thread_per_s,
  -- Lower end of its confidence interval.
  rates[r.low_rank] AS per_thread_low_per_s,
  -- Upper end of its confidence interval.
  rates[r.high_rank] AS per_thread_high_per_s,
  -- Confidence of the intervals, percent.
  r.coverage_pct,
  -- Power of all packages, watts; null if it cannot be read.
  watts,
  -- Work per joule of all packages; null if energy cannot be read.
  list_median(rates) * threads / nullif(watts, 0) AS work_per_joule,
  -- Thermal throttling events; null if not reported.
  throttles,
  -- Repeats used for these numbers.
  measured.n::INTEGER AS repeats,
  -- Whether every repeat was disturbed.
  is_disturbed,
FROM measured
LEFT JOIN median_rank() AS r ON r.n = measured.n
ORDER BY threads;
