-- The distributions of each recording in the order of builds and time: the series in which fleet_regression looks for changes.
-- p_metric: only ready_ns, slice_ns or frame_ns; null for all.
-- p_rank [0.99]: which quantile of each recording, from 0 to 1.
WITH
  build_start AS (
    SELECT build, min(coalesce(start_time_utc, date::TIMESTAMP)) AS first_utc
    FROM manifest
    GROUP BY build
  ),
  value AS (
    SELECT
      concat_ws(', ', m.cpu_model, coalesce(m.cores, m.cpus || ' CPUs'), m.os) AS class,
      s.metric,
      s.trace_id,
      m.machine,
      m.build,
      b.first_utc,
      coalesce(m.start_time_utc, m.date::TIMESTAMP) AS start_utc,
      s.count,
      s.sum_ns / s.count AS mean_ns,
      sketch_quantiles([s.sketch], [coalesce(p_rank, 0.99)::DOUBLE])[1] AS quantile_ns,
    FROM sketch AS s
    JOIN manifest AS m USING (trace_id)
    JOIN build_start AS b USING (build)
    WHERE p_metric IS NULL OR s.metric = p_metric
  ),
  usual AS (
    SELECT
      *,
      -- The median of fewer recordings would follow the change that is searched for.
      CASE
        WHEN count(*) OVER of_machine >= 3 AND min(build) OVER of_machine <> max(build) OVER of_machine
          THEN median(quantile_ns) OVER of_machine
        ELSE median(quantile_ns) OVER of_class
      END AS usual_ns,
    FROM value
    WINDOW
      of_machine AS (PARTITION BY class, metric, machine),
      of_class AS (PARTITION BY class, metric)
  )
SELECT
  -- Machine class: CPU model, cores, and system (fleet_machine_class).
  class,
  -- ready_ns, slice_ns or frame_ns.
  metric,
  -- Position in the series of this class and metric, from 0.
  row_number() OVER series - 1 AS place,
  -- Recording.
  trace_id,
  -- Machine.
  machine,
  -- Build of the recorded software.
  build,
  -- First recording of the build. (time)
  first_utc,
  -- Values in the recording.
  count,
  -- Their mean, ns. (no bounds)
  mean_ns,
  -- The quantile, ns; its rank is off by at most sketch_rank_error(). (no bounds)
  quantile_ns,
  -- The quantile over the median of its machine, or of its class for a machine with fewer than 3 recordings or only one build.
  quantile_ns / greatest(usual_ns, 1) AS relative,
FROM usual
WINDOW series AS (PARTITION BY class, metric ORDER BY first_utc, build, start_utc, trace_id)
ORDER BY class, metric, place;
