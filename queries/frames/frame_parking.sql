-- Frames by the number of logical CPUs parked during the frame: the mean over the frame, rounded.
-- Frames during which the parking state of some CPU is unknown are left out.
-- No rows without: frame.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
WITH
  framed AS MATERIALIZED (
    SELECT
      trace_id,
      process,
      upid,
      start_ns,
      start_ns + dur_ns AS end_ns,
      dur_ns,
      stutter,
      over_ns,
      row_number() OVER () AS id,
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE dur_ns > 0
  ),
  -- One stream contains these changes and the starts (sign -1) and ends (1) of frames. The parked
  -- (or unknown) CPU time up to an end minus that up to its start is exact.
  stream AS (
    SELECT trace_id, ts, parked, unknown, 0 AS sign, NULL AS id FROM parked_count(p_trace_id)
    UNION ALL
    SELECT trace_id, unnest([start_ns, end_ns]), NULL, NULL, unnest([-1, 1]), id FROM framed
  ),
  level AS (
    SELECT
      trace_id,
      sign,
      id,
      row_number() OVER sofar AS number,
      coalesce(arg_max(parked, ts) OVER sofar, 0)
        * (lead(ts) OVER sofar - ts) AS parked_ns,
      -- Nothing is known before the recording.
      coalesce(arg_max(unknown, ts) OVER sofar, 1)
        * (lead(ts) OVER sofar - ts) AS unknown_ns,
    FROM stream
    WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  spent AS (
    SELECT id, sum(sign * parked_before) AS parked_ns, sum(sign * unknown_before) AS unknown_ns
    FROM (
      SELECT
        id,
        sign,
        coalesce(sum(parked_ns) OVER sofar, 0) AS parked_before,
        coalesce(sum(unknown_ns) OVER sofar, 0) AS unknown_before,
      FROM level
      WINDOW sofar AS (
        PARTITION BY trace_id ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      )
    )
    WHERE id IS NOT NULL
    GROUP BY id
  ),
  weighed AS (
    SELECT framed.*, spent.parked_ns, spent.unknown_ns
    FROM framed
    JOIN spent ON spent.id = framed.id
  )
SELECT
  -- Recording.
  trace_id,
  -- Name of the presenting process.
  process,
  -- Process, unique in the database.
  upid,
  -- Mean number of logical CPUs parked during the frame, rounded.
  round(parked_ns / dur_ns)::INTEGER AS parked,
  -- Frames.
  count(*) AS frames,
  -- Mean length, ns. (no bounds)
  avg(dur_ns)::BIGINT AS mean_ns,
  -- Median length, ns. (no bounds)
  quantile_disc(dur_ns, 0.5) AS p50_ns,
  -- Longest, ns. (no bounds)
  max(dur_ns) AS longest_ns,
  -- Sum of their lengths, ns. (no bounds)
  sum(dur_ns)::BIGINT AS total_ns,
  -- Stutters among them.
  count(*) FILTER (WHERE stutter) AS stutters,
  -- Time by which the stutters exceeded the usual length, ns. (no bounds)
  coalesce(sum(over_ns), 0)::BIGINT AS stutter_ns,
FROM weighed
WHERE unknown_ns = 0
GROUP BY trace_id, process, upid, round(parked_ns / dur_ns)
ORDER BY trace_id, process, upid, parked;
