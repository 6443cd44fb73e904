-- The frames of each process that presents: how many, how long, how even, bound by what.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Name of the process that presents.
  process,
  -- Process, unique in the database.
  upid,
  -- Frames.
  count(*) AS frames,
  -- Frames a second: frames by the sum of their lengths.
  1e9 * count(dur_ns) / nullif(sum(dur_ns), 0) AS fps,
  -- Mean length, ns. (no bounds)
  avg(dur_ns)::BIGINT AS mean_ns,
  -- Median length, ns. (no bounds)
  quantile_disc(dur_ns, 0.5) AS p50_ns,
  -- Length that 95 % do not exceed, ns. (no bounds)
  quantile_disc(dur_ns, 0.95) AS p95_ns,
  -- Length that 99 % do not exceed, ns. (no bounds)
  quantile_disc(dur_ns, 0.99) AS p99_ns,
  -- Longest, ns. (no bounds)
  max(dur_ns) AS longest_ns,
  -- Stutters.
  count(*) FILTER (WHERE stutter) AS stutters,
  -- What the stutters lasted longer than usual, ns. (no bounds)
  coalesce(sum(over_ns), 0)::BIGINT AS stutter_ns,
  -- Frames bound by the CPU, percent of those of which it is known; null if of none. (no bounds)
  100.0 * count(*) FILTER (WHERE bound_by = 'cpu') / nullif(count(bound_by), 0) AS cpu_bound_pct,
  -- Frames bound by the GPU, percent of those of which it is known; null if of none. (no bounds)
  100.0 * count(*) FILTER (WHERE bound_by = 'gpu') / nullif(count(bound_by), 0) AS gpu_bound_pct,
  -- Frames never shown; null where the source does not tell.
  CASE WHEN count(dropped) > 0 THEN count(*) FILTER (WHERE dropped) END AS dropped,
  -- Largest uncertainty of the clock join, ns. (no bounds)
  max(clock_residual_ns) AS clock_residual_ns,
FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
GROUP BY trace_id, process, upid
ORDER BY trace_id, frames DESC, process, upid;
