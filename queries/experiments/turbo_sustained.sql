-- The experiment `scaling` with `--sustain`: how far the clock falls under long load, by number of
-- active cores, with the power. Medians over the repeats with confidence intervals.
-- No rows without: worker_clock.
-- p_trace_id: only this recording; null for all.
WITH
  joules AS (
    SELECT trace_id, sum(joules) FILTER (WHERE NOT contains(domain, '/')) AS joules
    FROM energy
    GROUP BY trace_id
  ),
  ran AS (
    SELECT
      c.trace_id,
      run.threads,
      1e9 * joules.joules / nullif(c.energy_ns, 0) AS watts,
      c.throttles,
      coalesce(d.is_disturbed, FALSE) AS is_disturbed,
      bool_and(coalesce(d.is_disturbed, FALSE)) OVER (PARTITION BY run.threads) AS all_of_them,
    FROM experiment_cell AS c
    JOIN run ON run.trace_id = c.trace_id AND run.status = 'ok'
    LEFT JOIN joules ON joules.trace_id = c.trace_id
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'scaling' AND c.place = 'turbo'
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  ),
  moment AS (
    SELECT trace_id, ns, median(ghz) AS ghz
    FROM worker_clock
    SEMI JOIN ran USING (trace_id)
    GROUP BY trace_id, ns
  ),
  edge AS (
    SELECT trace_id, min(ns) AS first_ns, max(ns) AS last_ns
    FROM moment
    GROUP BY trace_id
  ),
  ends AS (
    SELECT
      moment.trace_id,
      any_value(edge.last_ns) / 1e9 AS seconds,
      arg_min(moment.ghz, moment.ns) AS first_ghz,
      median(moment.ghz) FILTER (WHERE moment.ns > 0.8 * edge.last_ns) AS last_ghz,
    FROM moment
    JOIN edge USING (trace_id)
    GROUP BY moment.trace_id
  ),
  -- The last part at which the clock was still more than 2 % above that at the end.
  settled AS (
    SELECT
      moment.trace_id,
      coalesce(max(moment.ns) FILTER (WHERE moment.ghz > 1.02 * ends.last_ghz), 0) / 1e9
        AS falling_s,
    FROM moment
    JOIN ends USING (trace_id)
    GROUP BY moment.trace_id
  ),
  cell AS (
    SELECT
      ran.threads,
      median(ends.seconds) AS seconds,
      list_sort(list(ends.first_ghz)) AS firsts,
      list_sort(list(ends.last_ghz)) AS lasts,
      list_sort(list(100.0 * (1 - ends.last_ghz / ends.first_ghz))) AS falls,
      median(settled.falling_s) AS falling_s,
      median(ran.watts) AS watts,
      sum(ran.throttles)::BIGINT AS throttles,
      bool_and(ran.is_disturbed) AS is_disturbed,
    FROM ran
    JOIN ends ON ends.trace_id = ran.trace_id
    JOIN settled ON settled.trace_id = ran.trace_id
    WHERE ran.all_of_them OR NOT ran.is_disturbed
    GROUP BY ran.threads
  )
SELECT
  -- Active cores, with one worker each.
  cell.threads AS cores,
  -- Length of the measurement, seconds.
  cell.seconds,
  -- Clock of a core in the first second or part of it, GHz; measured with 64 dependent additions.
  list_median(cell.firsts) AS first_ghz,
  -- Clock in the last fifth of the time: what the machine sustains.
  list_median(cell.lasts) AS sustained_ghz,
  -- Lower end of its confidence interval.
  cell.lasts[r.low_rank] AS sustained_low_ghz,
  -- Upper end of its confidence interval.
  cell.lasts[r.high_rank] AS sustained_high_ghz,
  -- How far it falls from the first to the last, percent.
  list_median(cell.falls) AS fall_pct,
  -- Lower end of its confidence interval.
  cell.falls[r.low_rank] AS fall_low_pct,
  -- Upper end of its confidence interval.
  cell.falls[r.high_rank] AS fall_high_pct,
  -- Confidence of the intervals, percent.
  r.coverage_pct,
  -- Seconds after which it stayed within 2 % of the sustained clock; 0 if it always was.
  cell.falling_s,
  -- Power of all packages, watts; null if watts_unknown says why.
  cell.watts,
  -- Why the power is unknown.
  CASE
    WHEN cell.watts IS NULL THEN 'neither powercap nor perf''s power events could be read'
  END AS watts_unknown,
  -- Thermal throttling events; null if not reported.
  cell.throttles,
  -- Repeats used for these numbers.
  len(cell.lasts)::INTEGER AS repeats,
  -- Whether every repeat was disturbed.
  cell.is_disturbed,
FROM cell
LEFT JOIN median_rank() AS r ON r.n = len(cell.lasts)
ORDER BY cores;
