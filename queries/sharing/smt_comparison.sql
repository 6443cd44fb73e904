-- Sibling use in two recordings, side by side: how much siblings were busy at the same time, by all
-- three denominators, and the reduction in the second. `both of busy core time` is not diluted by
-- idle time; check the load too. The first recording is p_base; every other one is compared with
-- it.
-- No rows about one recording.
-- p_trace_id: only this recording as the second; null for all.
-- p_from_ns: start of the window of both; null for the default ones.
-- p_to_ns: end of the window of both; null for the default ones.
-- p_base [1]: the first recording.
-- p_process: also compare the thread time of processes of this name; null for none.
WITH
  machine AS (
    SELECT
      trace_id,
      unnest([
        {place: 1, measure: 'none of trace time', pct: none_pct},
        {place: 2, measure: 'one of trace time', pct: one_pct},
        {place: 3, measure: 'both of trace time', pct: both_pct},
        {place: 4, measure: 'both of busy core time', pct: shared_of_busy_pct},
        {place: 5, measure: 'shared of thread time', pct: shared_of_thread_pct},
        {place: 7, measure: 'load', pct: busy_pct}
      ], recursive := true),
    FROM sibling_overlap_total(p_from_ns := p_from_ns, p_to_ns := p_to_ns)
    WHERE cores > 0 AND (p_trace_id IS NULL OR trace_id IN (p_trace_id, p_base))
  ),
  own AS (
    SELECT
      trace_id,
      6 AS place,
      'shared of thread time of ' || p_process AS measure,
      100.0 * sum(shared_ns) / nullif(sum(run_ns), 0) AS pct,
    FROM thread_core_use(
      p_from_ns := p_from_ns, p_to_ns := p_to_ns, p_process := coalesce(p_process, '')
    )
    WHERE p_process IS NOT NULL
    GROUP BY trace_id
  ),
  every AS (FROM machine UNION ALL BY NAME FROM own)
SELECT
  -- First recording.
  a.trace_id AS first_trace_id,
  -- Its name.
  first_of.label AS first,
  -- Second recording.
  b.trace_id AS second_trace_id,
  -- Its name.
  second_of.label AS second,
  -- What is compared, and as a share of what.
  a.measure,
  -- In the first, percent. (no bounds)
  a.pct AS first_pct,
  -- In the second, percent. (no bounds)
  b.pct AS second_pct,
  -- Reduction in the second, percent of the first; negative: an increase; null if the first is 0.
  -- (no bounds)
  100.0 * (1 - b.pct / nullif(a.pct, 0)) AS less_pct,
FROM every AS a
JOIN every AS b ON b.place = a.place AND b.trace_id <> a.trace_id
JOIN trace AS first_of ON first_of.trace_id = a.trace_id
JOIN trace AS second_of ON second_of.trace_id = b.trace_id
WHERE a.trace_id = p_base AND (p_trace_id IS NULL OR b.trace_id = p_trace_id)
ORDER BY b.trace_id, a.place;
