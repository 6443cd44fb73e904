-- How much frequency each further active core costs: the slope of a line fitted to the intervals of
-- each core type, weighted by busy time.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  mean AS (
    SELECT
      *,
      sum(busy_ns * active::DOUBLE) OVER kind / sum(busy_ns) OVER kind AS mean_active,
      sum(busy_ns * khz::DOUBLE) OVER kind / sum(busy_ns) OVER kind AS mean_khz,
    FROM frequency_interval(p_trace_id, p_from_ns, p_to_ns)
    WHERE busy_ns > 0
    WINDOW kind AS (PARTITION BY trace_id, core_type)
  ),
  summed AS (
    SELECT
      trace_id,
      core_type,
      count(*) AS intervals,
      sum(busy_ns)::BIGINT AS busy_ns,
      any_value(mean_active) AS active,
      any_value(mean_khz) AS avg_khz,
      sum(busy_ns * pow(active - mean_active, 2)) AS xx,
      sum(busy_ns * (active - mean_active) * (khz - mean_khz)) AS xy,
      sum(busy_ns * pow(khz - mean_khz, 2)) AS yy,
    FROM mean
    GROUP BY trace_id, core_type
  )
SELECT
  -- Recording.
  trace_id,
  -- Core type; null if unknown.
  core_type,
  -- Intervals between two frequency changes in which the CPU was busy.
  intervals,
  -- Busy time in them, ns. (at least)
  busy_ns,
  -- Mean frequency over this time, kHz.
  avg_khz,
  -- Mean number of cores with a busy CPU over that time.
  active,
  -- Change of frequency per further active core, kHz; null with fewer than 10 intervals, or if the
  -- number of active cores varies by less than 0.1 (standard deviation).
  CASE WHEN intervals >= 10 AND xx >= 0.01 * busy_ns THEN xy / xx END AS khz_per_core,
  -- Goodness of fit, 0 to 1; null without a line, or if the frequency never changed.
  CASE WHEN intervals >= 10 AND xx >= 0.01 * busy_ns AND yy > 0 THEN xy * xy / (xx * yy) END AS fit,
FROM summed
ORDER BY trace_id, core_type;
