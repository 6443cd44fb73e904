-- The frames of each presenting process: how many, how long, how even, and what limited them.
-- No rows without: frame.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Name of the presenting process.
  process,
  -- Process, unique in the database.
  upid,
  -- Frames.
  count(*) AS frames,
  -- Frames per second: number of frames divided by the sum of their lengths.
  1e9 * count(dur_ns) / nullif(sum(dur_ns), 0) AS fps,
  -- Mean length, ns. (no bounds)
  avg(dur_ns)::BIGINT AS mean_ns,
  -- Median length, ns. (no bounds)
  quantile_disc(dur_ns, 0.5) AS p50_ns,
  -- 95th percentile of the length, ns. (no bounds)
  quantile_disc(dur_ns, 0.95) AS p95_ns,
  -- 99th percentile of the length, ns. (no bounds)
  quantile_disc(dur_ns, 0.99) AS p99_ns,
  -- Longest, ns. (no bounds)
  max(dur_ns) AS longest_ns,
  -- Stutters.
  count(*) FILTER (WHERE stutter) AS stutters,
  -- Time by which the stutters exceeded the usual length, ns. (no bounds)
  coalesce(sum(over_ns), 0)::BIGINT AS stutter_ns,
  -- CPU-bound frames, percent of the frames whose limit is known; null if none is. (no bounds)
  100.0 * count(*) FILTER (WHERE bound_by = 'cpu') / nullif(count(bound_by), 0) AS cpu_bound_pct,
  -- GPU-bound frames, percent of the frames whose limit is known; null if none is. (no bounds)
  100.0 * count(*) FILTER (WHERE bound_by = 'gpu') / nullif(count(bound_by), 0) AS gpu_bound_pct,
  -- Frames never shown; null if the source does not report them.
  CASE WHEN count(dropped) > 0 THEN count(*) FILTER (WHERE dropped) END AS dropped,
  -- Largest uncertainty of the clock alignment, ns. (no bounds)
  max(clock_residual_ns) AS clock_residual_ns,
FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
GROUP BY trace_id, process, upid
ORDER BY trace_id, frames DESC, process, upid;
