-- What the second thread of a core gains: Y is the throughput of both siblings together divided by
-- that of one alone, for each workload and core type. Cores are compared at the same number of
-- cores in use, because a core is faster when fewer are in use; if no such pair exists, over all
-- steps. Only steps with pinned workers, at most one per logical CPU, are used.
-- No rows without: run.
-- Few rows, which other questions read.
-- p_trace_id: only this step, compared across its own cores; null for the whole database.
WITH
  place AS (
    SELECT
      trace_id,
      cpu,
      arg_max(core, from_ns) AS core,
      arg_max(core_type, from_ns) AS core_type,
    FROM topology(p_trace_id)
    GROUP BY trace_id, cpu
  ),
  siblings AS (
    SELECT trace_id, core, any_value(core_type) AS core_type, count(*) AS cpus
    FROM place
    WHERE core IS NOT NULL
    GROUP BY trace_id, core
  ),
  step AS (
    SELECT trace_id, workload, variant
    FROM run
    WHERE workload IS NOT NULL AND status = 'ok' AND NOT coalesce(oversubscribed, FALSE)
      -- Different kernels running together have no common unit of throughput.
      AND NOT contains(workload, '+')
      AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  used AS (
    SELECT
      step.workload,
      step.variant,
      w.trace_id,
      place.core,
      any_value(place.core_type) AS core_type,
      count(*) AS workers,
      count(DISTINCT w.cpu) AS cpus,
      any_value(w.unit) AS unit,
      sum(coalesce(w.batch_per_s, w.per_s)) AS per_s,
      any_value(siblings.cpus) AS of_cpus,
    FROM worker_throughput(p_trace_id) AS w
    JOIN step USING (trace_id)
    JOIN place ON place.trace_id = w.trace_id AND place.cpu = w.cpu
    JOIN siblings ON siblings.trace_id = w.trace_id AND siblings.core = place.core
    GROUP BY step.workload, step.variant, w.trace_id, place.core
  ),
  core AS (
    SELECT
      *,
      count(*) OVER (PARTITION BY trace_id) AS cores,
    FROM used
    WHERE workers = cpus
  ),
  level AS (
    SELECT
      workload,
      variant,
      core_type,
      cores,
      median(per_s) FILTER (WHERE cpus = 1) AS alone_per_s,
      median(per_s) FILTER (WHERE cpus > 1) AS both_per_s,
    FROM core
    GROUP BY workload, variant, core_type, cores
  ),
  matched AS (
    SELECT
      workload,
      variant,
      core_type,
      median(both_per_s / nullif(alone_per_s, 0)) AS yield,
      min(both_per_s / nullif(alone_per_s, 0)) AS low,
      max(both_per_s / nullif(alone_per_s, 0)) AS high,
      count(both_per_s / nullif(alone_per_s, 0)) AS pairs,
    FROM level
    GROUP BY workload, variant, core_type
  ),
  overall AS (
    SELECT
      workload,
      variant,
      core_type,
      any_value(unit) AS unit,
      median(per_s) FILTER (WHERE cpus = 1) AS alone_per_s,
      median(per_s) FILTER (WHERE cpus > 1) AS both_per_s,
      max(of_cpus) AS of_cpus,
    FROM core
    GROUP BY workload, variant, core_type
  ),
  kernel AS (
    SELECT step.workload, step.variant, siblings.core_type, max(siblings.cpus) AS of_cpus
    FROM step
    JOIN siblings USING (trace_id)
    GROUP BY step.workload, step.variant, siblings.core_type
  )
SELECT
  -- Kernel.
  kernel.workload,
  -- Variant of the kernel; null if it has none.
  kernel.variant,
  -- Core type; null if unknown.
  kernel.core_type,
  -- Unit of work: bytes or iterations.
  overall.unit,
  -- Y: throughput of both siblings together / of one alone; below 1 the second thread costs
  -- throughput. Null if it cannot be determined.
  coalesce(
    matched.yield,
    overall.both_per_s / nullif(overall.alone_per_s, 0)
  ) AS yield,
  -- Lowest Y over the numbers of cores in use; null unless matched.
  matched.low AS yield_low,
  -- Highest Y over the numbers of cores in use; null unless matched.
  matched.high AS yield_high,
  -- Numbers of cores in use at which both were measured; 0: compared over all steps.
  coalesce(matched.pairs, 0) AS pairs,
  -- Work per second of a core with one worker, median; null if not measured.
  overall.alone_per_s,
  -- Work per second of a core with a worker on more than one sibling, median; null if not measured.
  overall.both_per_s,
  -- Why Y is null, not plausible, or compares different numbers of cores; null if none applies.
  CASE
    WHEN coalesce(matched.yield, overall.both_per_s / nullif(overall.alone_per_s, 0)) > 2
      THEN 'not plausible: above 2, more than two whole cores could do; the steps are not '
        || 'comparable, as on an emulated machine or one whose host takes CPU time'
    WHEN kernel.of_cpus < 2 THEN 'the cores of this type have one logical CPU each'
    WHEN overall.both_per_s IS NULL THEN 'no step put pinned workers on both siblings of a core'
    WHEN overall.alone_per_s IS NULL THEN 'no step put a pinned worker alone on a core'
    WHEN matched.pairs = 0 THEN 'measured at different numbers of cores in use'
  END AS reason,
FROM kernel
LEFT JOIN overall
  ON overall.workload = kernel.workload
  AND overall.variant IS NOT DISTINCT FROM kernel.variant
  AND overall.core_type IS NOT DISTINCT FROM kernel.core_type
LEFT JOIN matched
  ON matched.workload = kernel.workload
  AND matched.variant IS NOT DISTINCT FROM kernel.variant
  AND matched.core_type IS NOT DISTINCT FROM kernel.core_type
ORDER BY kernel.workload, kernel.variant, kernel.core_type;
