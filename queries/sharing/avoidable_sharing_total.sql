-- Shared core time that the machine could have avoided: at each moment, the largest number of
-- threads that could have moved at once, one to each idle core.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_min_idle_ns [100000]: shortest idle period of a core that counts, 0 or 100000.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  matched AS (
    SELECT
      m.trace_id,
      sum(m.same_type * clipped_ns(m.ts, m.dur, start_ns, end_ns))::BIGINT AS same_type_ns,
      sum(m.any_type * clipped_ns(m.ts, m.dur, start_ns, end_ns))::BIGINT AS any_type_ns,
      max(m.any_type) AS most,
    FROM avoidable_match AS m
    JOIN span ON span.trace_id = m.trace_id
    WHERE m.min_idle_ns = p_min_idle_ns AND m.ts < end_ns AND m.ts + m.dur > start_ns
    GROUP BY m.trace_id
  ),
  threads AS (
    SELECT
      trace_id,
      sum(shared_ns)::BIGINT AS shared_ns,
      sum(any_type_ns)::BIGINT AS any_type_ns,
      sum(soft_parked_ns)::BIGINT AS soft_parked_ns,
      bool_and(affinity_known) AS affinity_known,
      bool_and(same_type_ns IS NOT NULL) AS types_known,
    FROM avoidable_sharing(p_trace_id, p_from_ns, p_to_ns, NULL, p_min_idle_ns)
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  span.trace_id,
  -- Thread time with an SMT sibling busy, ns. (at least)
  coalesce(threads.shared_ns, 0)::BIGINT AS shared_ns,
  -- Avoidable by moves to idle cores of the same core type, ns; null for any other p_min_idle_ns,
  -- and if threads shared a core and the type of a core is unknown. (at least)
  CASE WHEN p_min_idle_ns IN (0, 100000) AND coalesce(threads.types_known, TRUE)
    THEN coalesce(matched.same_type_ns, 0) END AS same_type_ns,
  -- Avoidable by moves to idle cores of any core type, ns; null for any other p_min_idle_ns.
  -- (at least)
  CASE WHEN p_min_idle_ns IN (0, 100000) THEN coalesce(matched.any_type_ns, 0) END AS any_type_ns,
  -- any_type_ns as a share of the window: the mean number of threads that could have moved, x 100.
  -- (at least)
  CASE WHEN p_min_idle_ns IN (0, 100000)
    THEN 100.0 * coalesce(matched.any_type_ns, 0) / nullif(span.dur_ns, 0) END AS any_type_pct,
  -- Most threads that could have moved at one moment; null for any other p_min_idle_ns.
  CASE WHEN p_min_idle_ns IN (0, 100000) THEN coalesce(matched.most, 0) END AS most_at_once,
  -- Sum of what each thread alone could have avoided: an upper bound, ns. (at least)
  coalesce(threads.any_type_ns, 0)::BIGINT AS threads_sum_ns,
  -- Time that only soft-parked cores could have avoided, summed over threads, ns. (no bounds)
  coalesce(threads.soft_parked_ns, 0)::BIGINT AS soft_parked_ns,
  -- False: the affinity of some thread is unknown and taken as the CPUs it ran on, so these are
  -- lower bounds. Null: no thread shared a core.
  threads.affinity_known,
FROM span
LEFT JOIN matched ON matched.trace_id = span.trace_id
LEFT JOIN threads ON threads.trace_id = span.trace_id
WHERE EXISTS (FROM core_state AS c WHERE c.trace_id = span.trace_id)
ORDER BY span.trace_id;
