-- Marks of a program by name: how many, how many per second, and how long they lasted. If a program
-- marks its requests, these are its throughput and its latencies. Marks without a length are
-- counted, and their quantiles are null; so is a quantile with fewer than 10 marks beyond it.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- No rows without: mark.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  ended AS (
    SELECT
      m.trace_id,
      m.name,
      m.kind,
      nullif(m.dur, 0) AS dur,
      span.dur_ns AS window_ns,
    FROM mark AS m
    JOIN span ON span.trace_id = m.trace_id
    WHERE m.ts + coalesce(m.dur, 0) BETWEEN span.start_ns AND span.end_ns
  ),
  counted AS (
    SELECT
      trace_id,
      name,
      kind,
      count(*) AS marks,
      1e9 * count(*) / nullif(any_value(window_ns), 0) AS per_s,
      count(dur) AS lengths,
      avg(dur) AS mean_ns,
      quantile_disc(dur, [0.5, 0.99, 0.999]) AS quantiles,
      max(dur) AS longest_ns,
    FROM ended
    GROUP BY trace_id, name, kind
  )
SELECT
  -- Recording.
  trace_id,
  -- Text of the mark.
  name,
  -- workload_phase, user, frame, or incident.
  kind,
  -- Marks that end in the window.
  marks,
  -- The same per second of the window.
  per_s,
  -- Mean length, ns; null if none has a length. (no bounds)
  mean_ns,
  -- Median length, ns. (no bounds)
  CASE WHEN lengths * 0.5 >= 10 THEN quantiles[1] END AS p50_ns,
  -- 99th percentile of the length, ns. (no bounds)
  CASE WHEN lengths * 0.01 >= 10 THEN quantiles[2] END AS p99_ns,
  -- 99.9th percentile of the length, ns. (no bounds)
  CASE WHEN lengths * 0.001 >= 10 THEN quantiles[3] END AS p999_ns,
  -- Longest, ns. (no bounds)
  longest_ns,
FROM counted
ORDER BY trace_id, marks DESC, name, kind;
