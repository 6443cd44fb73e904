-- Time each thread ran with an SMT sibling busy while a whole core that it may use was idle. The
-- machine could have avoided less than the sum: see avoidable_sharing_total.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_min_idle_ns [100000]: shortest idle period of a core that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  -- Without the type of each core, nothing shows which ones are of the same.
  typed AS (
    SELECT trace_id
    FROM topology(p_trace_id)
    WHERE online IS NOT FALSE
    GROUP BY trace_id
    HAVING bool_and(core_type IS NOT NULL)
  ),
  piece AS (
    SELECT
      s.*,
      clipped_ns(s.ts, s.dur, start_ns, end_ns) AS ns,
    FROM sharing_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    WHERE s.ts < end_ns AND s.ts + s.dur > start_ns
  ),
  spent AS (
    SELECT
      utid,
      sum(ns)::BIGINT AS shared_ns,
      coalesce(sum(ns) FILTER (WHERE same_type_idle_ns >= p_min_idle_ns), 0)::BIGINT
        AS same_type_ns,
      coalesce(sum(ns) FILTER (WHERE any_type_idle_ns >= p_min_idle_ns), 0)::BIGINT AS any_type_ns,
      coalesce(
        sum(ns) FILTER (
          WHERE soft_parked_idle_ns >= p_min_idle_ns
            AND NOT coalesce(any_type_idle_ns >= p_min_idle_ns, false)
        ),
        0
      )::BIGINT AS soft_parked_ns,
      bool_and(affinity_known) AS affinity_known,
    FROM piece
    GROUP BY utid
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  who.utid,
  -- Running time with an SMT sibling busy, ns. (at least)
  spent.shared_ns,
  -- Part of shared_ns during which a usable whole core of the same core type was idle, ns; null if
  -- the type of a core is unknown. (at least)
  CASE WHEN typed.trace_id IS NOT NULL THEN spent.same_type_ns END AS same_type_ns,
  -- Part of shared_ns during which a usable whole core of any core type was idle, ns. (at least)
  spent.any_type_ns,
  -- Part of the rest during which a usable soft-parked core was idle, ns. (no bounds)
  spent.soft_parked_ns,
  -- any_type_ns as a share of shared_ns, percent. (no bounds)
  100.0 * spent.any_type_ns / spent.shared_ns AS avoidable_pct,
  -- False: its affinity is unknown and taken as the CPUs it ran on, so the times are lower bounds.
  spent.affinity_known,
FROM spent
JOIN who ON who.utid = spent.utid
LEFT JOIN typed ON typed.trace_id = who.trace_id
ORDER BY who.trace_id, spent.any_type_ns DESC, spent.shared_ns DESC, who.utid;
