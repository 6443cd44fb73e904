-- What the threads of each cgroup, container, pod, or service did in the window. A thread that moves
-- counts in each group for the time that it was in it. A move that was read and not recorded shows
-- late, so times may be those of the group before it: they have no bounds.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_by ['cgroup']: cgroup, container, pod or service.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  spell AS (
    SELECT
      g.trace_id,
      g.utid,
      who.upid,
      CASE p_by
        WHEN 'cgroup' THEN g.cgroup
        WHEN 'container' THEN g.container
        WHEN 'pod' THEN g.pod
        WHEN 'service' THEN g.service
        ELSE error('p_by is cgroup, container, pod or service')
      END AS name,
      g.reason,
      greatest(g.from_ns, span.start_ns) AS from_ns,
      least(g.to_ns, span.end_ns) AS to_ns,
      span.dur_ns AS window_ns,
    FROM thread_group(p_trace_id) AS g
    JOIN span ON span.trace_id = g.trace_id
    JOIN who ON who.utid = g.utid
    -- Without any reading there is nothing to group by.
    SEMI JOIN (
      SELECT trace_id FROM thread_cgroup
      UNION
      SELECT trace_id FROM snapshot_thread WHERE cgroup IS NOT NULL
    ) AS known ON known.trace_id = g.trace_id
    WHERE g.from_ns < span.end_ns AND g.to_ns > span.start_ns
  ),
  spent AS (
    SELECT
      spell.trace_id,
      spell.name,
      s.state,
      spell.utid,
      spell.upid,
      greatest(0, clipped_ns(s.ts, s.dur, spell.from_ns, spell.to_ns)) AS ns,
      0 AS shared_ns,
      0 AS throttled_ns,
    FROM spell
    JOIN thread_state AS s
      ON s.utid = spell.utid AND s.ts < spell.to_ns AND s.ts + s.dur > spell.from_ns
    UNION ALL
    SELECT
      spell.trace_id, spell.name, NULL, NULL, NULL, 0,
      greatest(0, clipped_ns(s.ts, s.dur, spell.from_ns, spell.to_ns)), 0,
    FROM spell
    JOIN sharing_slice AS s
      ON s.utid = spell.utid AND s.ts < spell.to_ns AND s.ts + s.dur > spell.from_ns
    UNION ALL
    SELECT
      spell.trace_id, spell.name, NULL, NULL, NULL, 0, 0,
      greatest(0, clipped_ns(s.ts, s.dur, spell.from_ns, spell.to_ns)),
    FROM spell
    JOIN ready_slice AS s
      ON s.utid = spell.utid AND s.ts < spell.to_ns AND s.ts + s.dur > spell.from_ns
    WHERE s.throttled OR s.cgroup_throttled
  ),
  length AS (SELECT trace_id, any_value(window_ns) AS window_ns FROM spell GROUP BY trace_id)
SELECT
  -- Recording.
  spent.trace_id,
  -- The cgroup, container, pod or service; null: in none, or not recorded (thread_group.reason).
  spent.name,
  -- Its processes with any time in the window.
  count(DISTINCT spent.upid) AS processes,
  -- Its threads with any time in the window.
  count(DISTINCT spent.utid) AS threads,
  -- Running time, ns. (no bounds)
  coalesce(sum(ns) FILTER (WHERE state = 'running'), 0)::BIGINT AS run_ns,
  -- run_ns as a share of the window, percent of one logical CPU. (no bounds)
  100.0 * coalesce(sum(ns) FILTER (WHERE state = 'running'), 0)
    / nullif(any_value(length.window_ns), 0) AS run_pct,
  -- Ready time: runnable but not running, ns. (no bounds)
  coalesce(sum(ns) FILTER (WHERE state = 'ready'), 0)::BIGINT AS ready_ns,
  -- Part of ready_ns in which the thread had switched out runnable to the idle thread, or the
  -- cgroup's throttled time grew in the step, ns. (no bounds)
  sum(throttled_ns)::BIGINT AS throttled_ns,
  -- Part of run_ns with at least one SMT sibling busy, ns. (no bounds)
  sum(shared_ns)::BIGINT AS shared_ns,
  -- Time of its threads in an unknown state, ns. (bound)
  coalesce(sum(ns) FILTER (WHERE state = 'unknown'), 0)::BIGINT AS unknown_ns,
FROM spent
JOIN length ON length.trace_id = spent.trace_id
GROUP BY spent.trace_id, spent.name
ORDER BY spent.trace_id, run_ns DESC, spent.name NULLS LAST;
