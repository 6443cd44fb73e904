-- Why ready threads were not running, summed over all threads, and how much of that time idle CPUs
-- could have taken: at each moment, the largest number of ready threads that idle CPUs could have
-- run.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_min_idle_ns [100000]: shortest idle interval that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  spent AS (
    SELECT
      trace_id,
      sum(ready_ns)::BIGINT AS ready_ns,
      sum(throttled_ns)::BIGINT AS throttled_ns,
      sum(idle_exit_ns)::BIGINT AS idle_exit_ns,
      sum(idle_available_ns)::BIGINT AS idle_available_ns,
      sum(parked_available_ns)::BIGINT AS parked_available_ns,
      sum(obstacle_unknown_ns)::BIGINT AS obstacle_unknown_ns,
      sum(all_busy_ns)::BIGINT AS all_busy_ns,
      sum(maybe_idle_ns)::BIGINT AS maybe_idle_ns,
      bool_and(affinity_known) AS affinity_known,
    FROM ready_obstacle(p_trace_id, p_from_ns, p_to_ns, NULL, p_min_idle_ns)
    GROUP BY trace_id
  ),
  matched AS (
    SELECT
      m.trace_id,
      sum(m.threads * clipped_ns(m.ts, m.dur, start_ns, end_ns))::BIGINT AS ns,
    FROM ready_match AS m
    JOIN span ON span.trace_id = m.trace_id
    WHERE m.min_idle_ns = p_min_idle_ns AND m.ts < end_ns AND m.ts + m.dur > start_ns
    GROUP BY m.trace_id
  )
SELECT
  -- Recording.
  spent.trace_id,
  -- Ready time of all threads, ns. (at least; unknown_ns more at most)
  spent.ready_ns,
  -- Throttled by a quota or a limit of its class, ns. (at least; unknown_ns more at most)
  spent.throttled_ns,
  -- At most 1 ms before the switch-in, with the CPU it switches in on still idle, ns.
  -- (at least; unknown_ns more at most)
  spent.idle_exit_ns,
  -- An allowed, unparked CPU was idle, summed over threads, ns. (at least; unknown_ns more at most)
  spent.idle_available_ns,
  -- An allowed CPU was idle, but parked or soft-parked, ns. (no bounds)
  spent.parked_available_ns,
  -- Part of parked_available_ns in which another allowed CPU may have been idle and unparked: its
  -- state or parking, or the affinity, is unknown, ns. (no bounds)
  spent.maybe_idle_ns,
  -- The state or the parking of an allowed CPU is unknown, ns. (no bounds)
  spent.obstacle_unknown_ns,
  -- No allowed CPU was idle long enough, ns. (at least; unknown_ns more at most)
  spent.all_busy_ns,
  -- Part of idle_available_ns that the idle CPUs could have run, ns; null unless p_min_idle_ns is 0
  -- or 100000. (at least)
  CASE WHEN p_min_idle_ns IN (0, 100000)
    THEN coalesce(matched.ns, 0)::BIGINT
  END AS matched_ns,
  -- False: the affinity of some thread is unknown and taken as the CPUs it ran on (lower bound).
  spent.affinity_known,
  -- obstacle_unknown_ns, plus maybe_idle_ns, plus the time in which the states of threads are
  -- unknown, ns. (bound)
  (spent.obstacle_unknown_ns + spent.maybe_idle_ns + coalesce(unclear.ns, 0))::BIGINT
    AS unknown_ns,
  -- Threads whose unknown time is included.
  coalesce(unclear.threads, 0) AS unknown_threads,
FROM spent
LEFT JOIN (
  SELECT trace_id, sum(unknown_ns) AS ns, count(*) AS threads
  FROM thread_unknown(p_trace_id, p_from_ns, p_to_ns)
  GROUP BY trace_id
) AS unclear ON unclear.trace_id = spent.trace_id
LEFT JOIN matched ON matched.trace_id = spent.trace_id
ORDER BY spent.trace_id;
