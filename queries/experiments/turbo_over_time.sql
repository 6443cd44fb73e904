-- The experiment `scaling` with `--sustain`: the clock over time by number of active cores, measured
-- with 64 dependent additions every 25 ms (later less often). The median over workers and repeats.
-- No rows without: worker_clock.
-- p_trace_id: only this recording; null for all.
WITH
  ran AS (
    SELECT
      c.trace_id,
      c.repeat,
      run.threads,
      coalesce(d.is_disturbed, FALSE) AS is_disturbed,
      bool_and(coalesce(d.is_disturbed, FALSE)) OVER (PARTITION BY run.threads) AS all_of_them,
    FROM experiment_cell AS c
    JOIN run ON run.trace_id = c.trace_id AND run.status = 'ok'
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'scaling' AND c.place = 'turbo'
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  ),
  -- The clock of a measurement at a time: the median of its workers.
  moment AS (
    SELECT
      ran.threads,
      ran.repeat,
      round(w.ns / 1e9)::INTEGER AS second,
      median(w.ghz) AS ghz,
    FROM worker_clock AS w
    JOIN ran ON ran.trace_id = w.trace_id
    WHERE ran.all_of_them OR NOT ran.is_disturbed
    GROUP BY ran.threads, ran.repeat, second
  ),
  measured AS (
    SELECT threads, second, list_sort(list(ghz)) AS clocks
    FROM moment
    GROUP BY threads, second
  )
SELECT
  -- Active cores, with one worker each.
  m.threads AS cores,
  -- End of the part of the interval, seconds after it began.
  m.second,
  -- Clock of a core in that part, GHz.
  list_median(m.clocks) AS ghz,
  -- Lower end of its confidence interval.
  m.clocks[r.low_rank] AS ghz_low,
  -- Upper end of its confidence interval.
  m.clocks[r.high_rank] AS ghz_high,
  -- Repeats used.
  len(m.clocks)::INTEGER AS repeats,
FROM measured AS m
LEFT JOIN median_rank() AS r ON r.n = len(m.clocks)
ORDER BY cores, second;
