-- Frames by the number of logical CPUs that were parked meanwhile: the mean over the frame's time,
-- to the nearest whole number. Frames in which the parking of some CPU is unknown are left out.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
WITH
  -- CPU time parked (unknown) up to each change: differences are exact.
  summed AS MATERIALIZED (
    SELECT
      *,
      coalesce(sum(parked * dur) OVER sofar, 0) AS parked_before,
      coalesce(sum(unknown * dur) OVER sofar, 0) AS unknown_before,
    FROM parked_count(p_trace_id)
    WINDOW sofar AS (
      PARTITION BY trace_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
  ),
  framed AS (
    SELECT trace_id, process, upid, start_ns, start_ns + dur_ns AS end_ns, dur_ns, stutter, over_ns
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE dur_ns > 0
  ),
  weighed AS (
    SELECT
      f.*,
      (b.parked_before + b.parked * (f.end_ns - b.ts))
        - (a.parked_before + a.parked * (f.start_ns - a.ts)) AS parked_ns,
      (b.unknown_before + b.unknown * (f.end_ns - b.ts))
        - (a.unknown_before + a.unknown * (f.start_ns - a.ts)) AS unknown_ns,
    FROM framed AS f
    ASOF JOIN summed AS a ON a.trace_id = f.trace_id AND a.ts <= f.start_ns
    ASOF JOIN summed AS b ON b.trace_id = f.trace_id AND b.ts <= f.end_ns
  )
SELECT
  -- Recording.
  trace_id,
  -- Name of the process that presents.
  process,
  -- Process, unique in the database.
  upid,
  -- Logical CPUs parked during the frame, on average.
  round(parked_ns / dur_ns)::INTEGER AS parked,
  -- Frames.
  count(*) AS frames,
  -- Mean length, ns.
  avg(dur_ns)::BIGINT AS mean_ns,
  -- Median length, ns.
  quantile_disc(dur_ns, 0.5) AS p50_ns,
  -- Longest, ns.
  max(dur_ns) AS longest_ns,
  -- Sum of their lengths, ns.
  sum(dur_ns)::BIGINT AS total_ns,
  -- Stutters among them.
  count(*) FILTER (WHERE stutter) AS stutters,
  -- What the stutters lasted longer than usual, ns.
  coalesce(sum(over_ns), 0)::BIGINT AS stutter_ns,
FROM weighed
WHERE unknown_ns = 0
GROUP BY trace_id, process, upid, round(parked_ns / dur_ns)
ORDER BY trace_id, process, upid, parked;
