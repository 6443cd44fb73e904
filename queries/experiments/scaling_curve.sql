-- Throughput against the number of threads for each placement: the median over the repeats. A plan
-- shared by several placements appears in the curve of each. Left out are steps whose kernel failed
-- its self-check, disturbed repeats (step_disturbance) if the same point has others, and workloads
-- that make frames, which keep a fixed rate with any number of threads. Of an experiment, only the
-- cells of its parameter sweep count.
-- No rows without: run.
-- p_trace_id: only this step, which gives one point; null for the whole database.
WITH
  placed AS (
    SELECT
      workload,
      variant,
      unnest(placements) AS placement,
      threads,
      unit,
      per_s,
      batch_per_s,
      oversubscribed,
      coalesce(d.is_disturbed, FALSE) AS is_disturbed,
    FROM run_throughput(p_trace_id) AS r
    LEFT JOIN step_disturbance() AS d ON d.trace_id = r.trace_id
    ANTI JOIN (SELECT trace_id FROM frame WHERE dialect = 'mark') AS beat
      ON beat.trace_id = r.trace_id
    WHERE status = 'ok' AND per_s IS NOT NULL
      AND r.trace_id NOT IN (SELECT trace_id FROM experiment_cell WHERE place <> 'sweep')
  ),
  measured AS (
    SELECT
      *,
      bool_and(is_disturbed) OVER same AS all_disturbed,
      count(*) OVER same AS every_repeat,
    FROM placed
    WINDOW same AS (PARTITION BY workload, variant, placement, threads)
  ),
  point AS (
    SELECT
      workload,
      variant,
      placement,
      threads,
      any_value(unit) AS unit,
      count(*) AS repeats,
      median(per_s) AS per_s,
      median(batch_per_s) AS batch_per_s,
      bool_or(oversubscribed) AS oversubscribed,
      list_sort(list(per_s)) AS rates,
      any_value(every_repeat) - count(*) AS left_out,
      any_value(all_disturbed) AS is_disturbed,
    FROM measured
    WHERE all_disturbed OR NOT is_disturbed
    GROUP BY workload, variant, placement, threads
  ),
  grown AS (
    SELECT
      *,
      min(threads) OVER curve AS first_threads,
      first_value(per_s) OVER curve AS first_per_s,
      lag(threads) OVER curve AS previous_threads,
      lag(per_s) OVER curve AS previous_per_s,
    FROM point
    WINDOW curve AS (PARTITION BY workload, variant, placement ORDER BY threads)
  )
SELECT
  -- Kernel.
  workload,
  -- Variant of the kernel; null if it has none.
  variant,
  -- Placement: default, physical, siblings or pinned.
  placement,
  -- Workers.
  threads,
  -- True if there are more workers than CPUs they may use.
  oversubscribed,
  -- Repeats used for this point.
  repeats,
  -- Repeats left out because they were disturbed.
  left_out,
  -- Whether every repeat was disturbed, so this point comes from disturbed repeats.
  is_disturbed,
  -- Unit of work: bytes or iterations.
  unit,
  -- Work per second of all workers together, median over the repeats.
  per_s,
  -- Work per second of one worker.
  per_s / nullif(threads, 0) AS per_thread_per_s,
  -- Work per second of all workers together from the median of each worker's batches, which is
  -- their rate while they run.
  batch_per_s,
  -- Lower bound of the median over many repeats: a repeat, by rank (median_rank).
  rates[r.low_rank] AS low_per_s,
  -- Its upper bound.
  rates[r.high_rank] AS high_per_s,
  -- Confidence of these bounds, percent: below 95 with fewer than six repeats.
  r.coverage_pct,
  -- Difference of the bounds in percent of the median; null for a single repeat.
  CASE
    WHEN repeats > 1 THEN 100.0 * (rates[r.high_rank] - rates[r.low_rank]) / nullif(per_s, 0)
  END AS spread_pct,
  -- Throughput relative to one thread of this placement; null if the curve does not start at one
  -- thread.
  CASE WHEN first_threads = 1 THEN per_s / nullif(first_per_s, 0) END AS speedup,
  -- Speedup per thread, percent: 100 is linear.
  CASE
    WHEN first_threads = 1 THEN 100.0 * per_s / nullif(first_per_s * threads, 0)
  END AS efficiency_pct,
  -- Gain of each thread added since the previous point, in percent of one thread alone; null for
  -- the first point, or if the curve does not start at one thread.
  CASE
    WHEN first_threads = 1
      THEN 100.0 * (per_s - previous_per_s) / nullif((threads - previous_threads) * first_per_s, 0)
  END AS added_thread_pct,
FROM grown
LEFT JOIN median_rank() AS r ON r.n = grown.repeats
ORDER BY workload, variant, placement, threads;
