-- Throughput of each worker of each step in its measured interval. Work is counted in bytes for
-- kernels that process data, else in iterations.
-- No rows without: run_worker.
-- Few rows, which other questions read.
-- p_trace_id: only this step; null for all.
WITH
  batch AS (
    SELECT
      s.trace_id,
      s.worker,
      count(*) AS batches,
      median(
        CASE WHEN s.end_ns > s.start_ns
          THEN 1e9 * (CASE WHEN w.bytes > 0 THEN s.bytes ELSE s.iterations END)
            / (s.end_ns - s.start_ns)
        END
      ) AS per_s,
    FROM run_sample AS s
    JOIN run_worker AS w ON w.trace_id = s.trace_id AND w.worker = s.worker
    WHERE (p_trace_id IS NULL OR s.trace_id = p_trace_id)
      AND s.start_ns >= w.start_ns AND s.end_ns <= w.end_ns
    GROUP BY s.trace_id, s.worker
  )
SELECT
  -- Recording of the step.
  w.trace_id,
  -- Number of the worker, from 0.
  w.worker,
  -- Its thread; null if the trace does not show it.
  w.utid,
  -- Its thread id.
  w.tid,
  -- Logical CPU it is pinned to; null: not pinned.
  w.cpu,
  -- Length of its measured interval, ns. (exact)
  (w.end_ns - w.start_ns)::BIGINT AS interval_ns,
  -- Unit of work: bytes or iterations.
  CASE WHEN w.bytes > 0 THEN 'bytes' ELSE 'iterations' END AS unit,
  -- Work done in the interval.
  CASE WHEN w.bytes > 0 THEN w.bytes ELSE w.iterations END AS work,
  -- Work per second over the whole interval.
  1e9 * (CASE WHEN w.bytes > 0 THEN w.bytes ELSE w.iterations END)
    / nullif(w.end_ns - w.start_ns, 0) AS per_s,
  -- Work per second, median over its batches: its rate while it runs; null without batches.
  batch.per_s AS batch_per_s,
  -- Batches within the interval.
  coalesce(batch.batches, 0) AS batches,
  -- Its own CPU time as a share of the interval, percent. (exact)
  100.0 * w.cpu_time_ns / nullif(w.end_ns - w.start_ns, 0) AS cpu_pct,
FROM run_worker AS w
LEFT JOIN batch ON batch.trace_id = w.trace_id AND batch.worker = w.worker
WHERE p_trace_id IS NULL OR w.trace_id = p_trace_id
ORDER BY w.trace_id, w.worker;
