-- Why each thread was ready and not running; the parts sum to its ready time.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_min_idle_ns [100000]: shortest idle interval that counts.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  summary AS (
    SELECT sums.*
    FROM ready_obstacle_sum AS sums
    JOIN span
      ON span.trace_id = sums.trace_id AND span.start_ns = sums.start_ns
      AND span.end_ns = sums.end_ns
    WHERE sums.min_idle_ns = p_min_idle_ns
  ),
  -- Recordings without a summary of this window.
  left_over AS (FROM span ANTI JOIN summary USING (trace_id)),
  spent AS (
    SELECT
      utid,
      sum(dur)::BIGINT AS ready_ns,
      coalesce(sum(dur) FILTER (WHERE obstacle = 'throttled'), 0)::BIGINT AS throttled_ns,
      coalesce(sum(dur) FILTER (WHERE obstacle = 'idle_exit'), 0)::BIGINT AS idle_exit_ns,
      coalesce(sum(dur) FILTER (WHERE obstacle = 'idle_available'), 0)::BIGINT
        AS idle_available_ns,
      coalesce(sum(dur) FILTER (WHERE obstacle = 'parked_available'), 0)::BIGINT
        AS parked_available_ns,
      coalesce(sum(dur) FILTER (WHERE obstacle = 'unknown'), 0)::BIGINT
        AS obstacle_unknown_ns,
      coalesce(sum(dur) FILTER (WHERE obstacle = 'all_busy'), 0)::BIGINT AS all_busy_ns,
      coalesce(sum(dur) FILTER (WHERE obstacle = 'parked_available' AND may_be_idle), 0)::BIGINT
        AS maybe_idle_ns,
      coalesce(
        sum(dur) FILTER (WHERE obstacle = 'all_busy' AND outside_idle_ns >= p_min_idle_ns), 0
      )::BIGINT AS outside_idle_ns,
      bool_and(affinity_known) AS affinity_known,
    FROM ready_obstacle_slice(p_trace_id, p_from_ns, p_to_ns, p_min_idle_ns)
    SEMI JOIN left_over USING (trace_id)
    GROUP BY utid
    UNION ALL BY NAME
    SELECT * EXCLUDE (trace_id, start_ns, end_ns, min_idle_ns) FROM summary
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
  -- Ready time, ns. (at least; unknown_ns more at most)
  spent.ready_ns,
  -- Throttled by a quota or a limit of its class, ns. (at least; unknown_ns more at most)
  spent.throttled_ns,
  -- At most 1 ms before the switch-in, with the CPU it switches in on still idle, ns.
  -- (at least; unknown_ns more at most)
  spent.idle_exit_ns,
  -- An allowed, unparked CPU was idle, ns. (at least; unknown_ns more at most)
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
  -- Part of all_busy_ns in which an unparked CPU outside its known affinity was idle, ns.
  -- (no bounds)
  spent.outside_idle_ns,
  -- False: its affinity is unknown and taken as the CPUs it ran on, so idle_available_ns is a lower
  -- bound.
  spent.affinity_known,
  -- obstacle_unknown_ns, plus maybe_idle_ns, plus the time in which the state of the thread is
  -- unknown, ns. (bound)
  (spent.obstacle_unknown_ns + spent.maybe_idle_ns + coalesce(t.unknown_ns, 0))::BIGINT
    AS unknown_ns,
FROM spent
JOIN who ON who.utid = spent.utid
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t ON t.utid = spent.utid
ORDER BY who.trace_id, spent.ready_ns DESC, who.utid;
