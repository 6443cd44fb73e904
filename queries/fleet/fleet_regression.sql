-- Changes of level in the series of recordings of a machine class, in the order of builds: which build made it slower or faster. PELT on the logarithm of one quantile per recording, relative to its machine.
-- p_metric: only ready_ns, slice_ns or frame_ns; null for all.
-- p_rank [0.99]: which quantile of each recording, from 0 to 1.
-- p_min_change_pct [10]: smallest change between the medians of two levels, percent.
WITH
  series AS (FROM fleet_series(p_metric := p_metric, p_rank := p_rank)),
  searched AS (
    SELECT class, metric, change_points(list(relative ORDER BY place)) AS places
    FROM series
    GROUP BY class, metric
  ),
  level AS (
    SELECT
      series.*,
      len(list_filter(searched.places, lambda start: start <= series.place)) AS level,
    FROM series
    JOIN searched USING (class, metric)
  ),
  summed AS (
    SELECT
      class,
      metric,
      level,
      count(*) AS recordings,
      median(quantile_ns) AS median_ns,
      median(relative) AS relative,
      arg_min(build, place) AS build,
      arg_max(build, place) AS last_build,
      arg_min(trace_id, place) AS trace_id,
    FROM level
    GROUP BY class, metric, level
  ),
  compared AS (
    SELECT
      *,
      lag(median_ns) OVER levels AS before_ns,
      lag(relative) OVER levels AS before_relative,
      lag(last_build) OVER levels AS before_build,
      lag(recordings) OVER levels AS before_recordings,
    FROM summed
    WINDOW levels AS (PARTITION BY class, metric ORDER BY level)
  )
SELECT
  -- Machine class.
  class,
  -- ready_ns, slice_ns or frame_ns.
  metric,
  -- Build of the first recording of the new level.
  build,
  -- Build of the last recording of the level before; the same as build: the change is not due to the build.
  before_build,
  -- Recordings of the level before.
  before_recordings,
  -- Recordings of the new level.
  recordings,
  -- Median over the level before of the quantile of each recording, ns. (no bounds)
  before_ns,
  -- The same over the new level, ns. (no bounds)
  median_ns AS after_ns,
  -- Change of the median relative to the machines, percent; positive: slower. (no bounds)
  100.0 * (relative - before_relative) / before_relative AS change_pct,
  -- First recording of the new level.
  trace_id,
FROM compared
WHERE before_relative > 0
  AND 100 * abs(relative - before_relative) / before_relative >= coalesce(p_min_change_pct, 10)
ORDER BY abs(ln(greatest(relative, 1e-9) / before_relative)) DESC, class, metric, trace_id;
