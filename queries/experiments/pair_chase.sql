-- The pointer chase of two workers, on two cores and on the SMT siblings of one core, with the
-- names that the chapter on cores and siblings uses: medians over the repeats with confidence
-- intervals. Disturbed repeats are left out if there are others.
-- p_trace_id: only this recording; null for all.
WITH
  run_hop AS (
    SELECT
      label,
      place,
      repeat,
      median(ns_per_iteration) AS ns,
      bool_or(coalesce(is_disturbed, FALSE)) AS is_disturbed,
    FROM pair_worker(p_trace_id)
    WHERE starts_with(label, 'pointer_chase') AND place <> 'alone'
      AND cell IN (
        SELECT cell FROM pair_interference(p_trace_id) WHERE first = second
      )
    GROUP BY label, place, repeat
  ),
  kept AS (
    SELECT *
    FROM (
      SELECT *, bool_and(is_disturbed) OVER (PARTITION BY label, place) AS all_of_them
      FROM run_hop
    )
    WHERE ns IS NOT NULL AND (all_of_them OR NOT is_disturbed)
  ),
  hop AS (
    SELECT label, place, list_sort(list(ns)) AS each, bool_and(is_disturbed) AS is_disturbed
    FROM kept
    GROUP BY label, place
  ),
  -- The nearest pair of cores.
  nearest AS (
    SELECT label, arg_min(place, rank) AS place
    FROM (
      SELECT
        *,
        list_position(['same_llc', 'same_l2', 'across_llc', 'across_package'], place) AS rank,
      FROM hop
    )
    WHERE rank IS NOT NULL
    GROUP BY label
  ),
  core AS (SELECT hop.* FROM hop JOIN nearest USING (label, place)),
  sibling AS (SELECT * FROM hop WHERE place = 'siblings'),
  -- The siblings compared with the cores of the same repeat.
  more AS (
    SELECT s.label, list_sort(list(100.0 * (s.ns / nullif(c.ns, 0) - 1))) AS each
    FROM kept AS s
    JOIN nearest ON nearest.label = s.label
    JOIN kept AS c ON c.label = s.label AND c.place = nearest.place AND c.repeat = s.repeat
    WHERE s.place = 'siblings'
    GROUP BY s.label
  )
SELECT
  -- Kernel and variant: pointer_chase:private (a cycle for each worker) or :shared (one for both).
  coalesce(core.label, sibling.label) AS label,
  -- Time per hop with each worker on its own core; null if not measured.
  list_median(core.each) AS cross_core_ns_per_hop,
  -- Lower end of its confidence interval.
  core.each[c.low_rank] AS cross_core_low,
  -- Upper end of its confidence interval.
  core.each[c.high_rank] AS cross_core_high,
  -- Relation of these two cores.
  core.place AS cross_core_place,
  -- Time per hop with both workers on the siblings of one core; null if there are none.
  list_median(sibling.each) AS smt_sibling_ns_per_hop,
  -- Lower end of its confidence interval.
  sibling.each[s.low_rank] AS smt_sibling_low,
  -- Upper end of its confidence interval.
  sibling.each[s.high_rank] AS smt_sibling_high,
  -- Cost of the busy sibling, percent; null if either was not measured.
  coalesce(
    list_median(more.each),
    100.0 * (list_median(sibling.each) / nullif(list_median(core.each), 0) - 1)
  ) AS smt_overhead_pct,
  -- Lower end of its confidence interval; null if no repeat has both.
  more.each[m.low_rank] AS smt_overhead_low_pct,
  -- Upper end of its confidence interval.
  more.each[m.high_rank] AS smt_overhead_high_pct,
  -- Lowest confidence of the intervals of the hops, percent.
  least(c.coverage_pct, s.coverage_pct) AS coverage_pct,
  -- Whether every repeat of either was disturbed.
  coalesce(core.is_disturbed, FALSE) OR coalesce(sibling.is_disturbed, FALSE) AS is_disturbed,
FROM core
FULL JOIN sibling ON sibling.label = core.label
LEFT JOIN more ON more.label = coalesce(core.label, sibling.label)
LEFT JOIN median_rank() AS c ON c.n = len(core.each)
LEFT JOIN median_rank() AS s ON s.n = len(sibling.each)
LEFT JOIN median_rank() AS m ON m.n = len(more.each)
ORDER BY 1;
