-- The experiment `handoff`: the time to hand an item to another thread, by placement and way of
-- waiting, and the frame rate of a 60 Hz loop that needs as many hand-offs per frame as 35 ms has
-- slices. Medians over the repeats with confidence intervals.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  hop AS (
    SELECT
      c.trace_id,
      c.place,
      c.how,
      -- Between two hops of one party there is one hop of the other.
      median(e.ns_per_iteration) / 2 AS ns,
      bool_or(coalesce(d.is_disturbed, FALSE)) AS is_disturbed,
    FROM experiment_cell AS c
    JOIN experiment_worker AS e USING (trace_id)
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'handoff' AND e.kernel = 'spin_handoff'
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
    GROUP BY c.trace_id, c.place, c.how
  ),
  frame AS (
    SELECT
      c.trace_id,
      c.place,
      c.how,
      any_value(c.handoffs) AS handoffs,
      sum(e.frames) AS frames,
      sum(e.missed_frames) AS missed,
      1e9 * sum(e.frames) / nullif(sum(e.interval_ns), 0) AS fps,
      bool_or(coalesce(d.is_disturbed, FALSE)) AS is_disturbed,
    FROM experiment_cell AS c
    JOIN experiment_worker AS e USING (trace_id)
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'handoff' AND e.frames IS NOT NULL
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
    GROUP BY c.trace_id, c.place, c.how
  ),
  hops AS (
    SELECT
      place,
      how,
      count(ns) AS n,
      list_sort(list(ns) FILTER (WHERE ns IS NOT NULL)) AS kept,
      bool_and(is_disturbed) AS is_disturbed,
    FROM (SELECT *, bool_and(is_disturbed) OVER (PARTITION BY place, how) AS all_of_them FROM hop)
    WHERE all_of_them OR NOT is_disturbed
    GROUP BY place, how
  ),
  frames AS (
    SELECT
      place,
      how,
      max(handoffs) AS handoffs,
      sum(frames)::BIGINT AS frames,
      sum(missed)::BIGINT AS missed,
      count(fps) AS n,
      list_sort(list(fps) FILTER (WHERE fps IS NOT NULL)) AS kept,
      bool_and(is_disturbed) AS is_disturbed,
    FROM (SELECT *, bool_and(is_disturbed) OVER (PARTITION BY place, how) AS all_of_them FROM frame)
    WHERE all_of_them OR NOT is_disturbed
    GROUP BY place, how
  )
SELECT
  -- same_cpu, siblings, same_l2, same_llc, across_llc, across_package or p_beside_e.
  coalesce(hops.place, frames.place) AS place,
  -- How the parties wait: spin, yield or park.
  coalesce(hops.how, frames.how) AS how,
  -- Repeats used for the one-way time.
  coalesce(hops.n, 0) AS repeats,
  -- One-way time of a hand-off, ns; null if not measured. (exact)
  list_median(hops.kept) AS one_way_ns,
  -- Lower end of its confidence interval, ns. (exact)
  hops.kept[r.low_rank] AS one_way_low_ns,
  -- Upper end of its confidence interval, ns. (exact)
  hops.kept[r.high_rank] AS one_way_high_ns,
  -- Confidence of the intervals, percent.
  r.coverage_pct,
  -- Hand-offs that a frame needs; null if no frames were measured.
  frames.handoffs,
  -- Frames per second of the loop; 60 if the hand-offs do not slow it.
  list_median(frames.kept) AS frames_per_s,
  -- Lower end of its confidence interval.
  frames.kept[f.low_rank] AS frames_per_s_low,
  -- Upper end of its confidence interval.
  frames.kept[f.high_rank] AS frames_per_s_high,
  -- Frames measured.
  frames.frames,
  -- Frames that began late, percent.
  100.0 * frames.missed / nullif(frames.frames, 0) AS missed_pct,
  -- Whether every repeat of the hand-offs or of the frames was disturbed; otherwise disturbed
  -- repeats are left out.
  coalesce(hops.is_disturbed, FALSE) OR coalesce(frames.is_disturbed, FALSE) AS is_disturbed,
FROM hops
FULL JOIN frames ON frames.place = hops.place AND frames.how = hops.how
LEFT JOIN median_rank() AS r ON r.n = hops.n
LEFT JOIN median_rank() AS f ON f.n = frames.n
ORDER BY
  list_position(
    ['same_cpu', 'siblings', 'same_l2', 'same_llc', 'across_llc', 'across_package', 'p_beside_e'],
    coalesce(hops.place, frames.place)
  ),
  2;
