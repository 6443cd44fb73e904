-- Frequency of the CPUs of each core type over the window, in p_columns time bins: means over the
-- time for which it is known; bins without any are left out.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_columns [2000]: number of time bins in the window.
WITH
  span AS (
    SELECT *, greatest(1, ceil(dur_ns / p_columns)::BIGINT) AS width_ns
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
    WHERE dur_ns > 0
  ),
  cut AS (
    SELECT
      f.trace_id,
      f.core_type,
      f.khz,
      f.busy_ns / f.dur AS busy,
      span.start_ns,
      span.end_ns,
      span.width_ns,
      f.from_ns - span.start_ns AS from_ns,
      f.from_ns + f.dur - span.start_ns AS to_ns,
      unnest(
        range(
          (f.from_ns - span.start_ns) // span.width_ns,
          (f.from_ns + f.dur - span.start_ns - 1) // span.width_ns + 1
        )
      ) AS col,
    FROM frequency_interval(p_trace_id, p_from_ns, p_to_ns) AS f
    JOIN span ON span.trace_id = f.trace_id
  )
SELECT
  -- Recording.
  trace_id,
  -- Core type; null if unknown.
  core_type,
  -- Start of the time bin, ns. (time)
  (any_value(cut.start_ns) + col * any_value(width_ns))::BIGINT AS start_ns,
  -- Its length, ns. (exact)
  least(any_value(width_ns), any_value(end_ns - cut.start_ns) - col * any_value(width_ns))::BIGINT
    AS dur_ns,
  -- Mean frequency, kHz.
  sum(khz * overlap_ns(from_ns, to_ns, col * width_ns, (col + 1) * width_ns)::DOUBLE)
    / sum(overlap_ns(from_ns, to_ns, col * width_ns, (col + 1) * width_ns)) AS avg_khz,
  -- Mean share of this time in which the CPUs were busy, percent. (no bounds)
  100.0 * sum(busy * overlap_ns(from_ns, to_ns, col * width_ns, (col + 1) * width_ns))
    / sum(overlap_ns(from_ns, to_ns, col * width_ns, (col + 1) * width_ns)) AS busy_pct,
FROM cut
GROUP BY trace_id, core_type, col
ORDER BY trace_id, core_type, col;
