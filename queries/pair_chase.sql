-- The pointer chase of two workers on two cores and on the siblings of one, under the names that
-- the chapter on cores and siblings gives its results.
-- p_trace_id: only this recording; null for all.
WITH
  hop AS (
    SELECT label, place, median(ns_per_iteration) AS ns
    FROM pair_worker(p_trace_id)
    WHERE starts_with(label, 'pointer_chase') AND place <> 'alone'
      AND cell IN (
        SELECT cell FROM pair_interference(p_trace_id) WHERE first = second
      )
    GROUP BY label, place
  ),
  -- The nearest pair of cores there is.
  core AS (
    SELECT label, arg_min(ns, rank) AS ns, arg_min(place, rank) AS place
    FROM (
      SELECT *, list_position(['same_llc', 'same_l2', 'across_llc', 'across_package'], place) AS rank
      FROM hop
    )
    WHERE rank IS NOT NULL
    GROUP BY label
  ),
  sibling AS (SELECT label, ns FROM hop WHERE place = 'siblings')
SELECT
  -- Kernel and variant: pointer_chase:private (a cycle each) or :shared (one for both).
  coalesce(core.label, sibling.label) AS label,
  -- Time of a hop, both workers on cores of their own; null if not measured.
  core.ns AS cross_core_ns_per_hop,
  -- How these two cores stand to each other.
  core.place AS cross_core_place,
  -- Time of a hop, both workers on the siblings of one core; null if there are none.
  sibling.ns AS smt_sibling_ns_per_hop,
  -- What the sibling costs, percent; null if either was not measured.
  100.0 * (sibling.ns / nullif(core.ns, 0) - 1) AS smt_overhead_pct,
FROM core
FULL JOIN sibling ON sibling.label = core.label
ORDER BY 1;
