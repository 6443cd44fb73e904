-- Throughput of each step of a workload: all workers together, and one worker.
-- No rows without: run.
-- Few rows, which other questions read.
-- p_trace_id: only this step; null for all.
WITH
  done AS (
    SELECT
      trace_id,
      count(*) AS workers,
      CASE WHEN count(DISTINCT unit) = 1 THEN any_value(unit) END AS unit,
      sum(per_s) AS per_s,
      sum(batch_per_s) AS batch_per_s,
      count(batch_per_s) AS with_batches,
      min(per_s) AS slowest_per_s,
      max(per_s) AS fastest_per_s,
      avg(cpu_pct) AS cpu_pct,
    FROM worker_throughput(p_trace_id)
    GROUP BY trace_id
  )
SELECT
  -- Recording of the step.
  run.trace_id,
  -- Name of the step.
  run.step,
  -- Kernel; null for a command.
  run.workload,
  -- Variant of the kernel; null if it has none.
  run.variant,
  -- First of the placements that share this plan.
  run.placement,
  -- All placements that share this plan: identical plans run once.
  coalesce(run.placements, [run.placement]) AS placements,
  -- Workers.
  run.threads,
  -- Number of the repeat, from 1.
  run.repeat,
  -- True if there are more workers than CPUs they may use.
  run.oversubscribed,
  -- Result of the kernel's self-check: ok, failed or unsupported.
  run.status,
  -- Unit of work: bytes or iterations.
  done.unit,
  -- Work per second of all workers together.
  done.per_s,
  -- Work per second of one worker, mean.
  done.per_s / nullif(done.workers, 0) AS per_thread_per_s,
  -- Work per second of all workers together from the median of each worker's batches, which is
  -- their rate while they run; null if a worker has no batch.
  CASE WHEN done.with_batches = done.workers THEN done.batch_per_s END AS batch_per_s,
  -- Work per second of the slowest worker.
  done.slowest_per_s,
  -- Work per second of the fastest worker.
  done.fastest_per_s,
  -- CPU time of the workers as a share of their measured intervals, percent, mean. (exact)
  done.cpu_pct,
FROM run
LEFT JOIN done USING (trace_id)
WHERE p_trace_id IS NULL OR run.trace_id = p_trace_id
ORDER BY run.workload, run.variant, run.placement, run.threads, run.repeat, run.trace_id;
