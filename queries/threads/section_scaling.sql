-- Wall time of the parallel sections of each worker pool by the number of workers that took part.
-- If more of them no longer shorten it, another worker does not help.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name; null for all.
-- p_least [3]: smallest number of threads in a pool.
SELECT
  -- Recording.
  trace_id,
  -- Name of the process; null if not recorded.
  process,
  -- Process, unique in the database.
  upid,
  -- Name of the threads, with # for digits.
  pool,
  -- Workers that ran in a section.
  workers,
  -- Sections with this many workers.
  count(*) AS sections,
  -- Their mean length, ns. (no bounds)
  avg(dur)::BIGINT AS mean_ns,
  -- Median length, ns. (no bounds)
  quantile_disc(dur, 0.5) AS p50_ns,
  -- Mean running time of all their workers, ns. (no bounds)
  avg(run_ns)::BIGINT AS run_mean_ns,
  -- Mean ready time of all their workers, ns. (no bounds)
  avg(ready_ns)::BIGINT AS ready_mean_ns,
  -- Mean number of running workers: running time divided by length.
  sum(run_ns) / nullif(sum(dur), 0) AS parallel,
FROM parallel_section(p_trace_id, p_from_ns, p_to_ns, p_process, p_least)
GROUP BY trace_id, process, upid, pool, workers
ORDER BY trace_id, upid, pool, workers;
