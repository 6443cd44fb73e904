-- Long slices of threads by the number of logical CPUs parked at their switch-in: whether a thread
-- runs long, or waits long for a CPU, while many CPUs are parked. A preemption ends a slice but not
-- the work: core_choice has the whole times.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_thread: only threads of this name; null for all.
-- p_long_ns [1000000]: shortest slice that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (
    FROM thread_with_process(p_trace_id, p_process)
    WHERE p_thread IS NULL OR thread = p_thread
  ),
  slice AS (
    SELECT s.trace_id, s.utid, s.ts, s.dur, s.ready_ns
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    WHERE (p_process IS NULL OR s.utid IN (SELECT utid FROM who))
      AND s.dur >= p_long_ns AND s.ts >= span.start_ns AND s.ts < span.end_ns
      AND NOT s.left_censored
  ),
  -- A change at the time of the switch-in already counts.
  placed AS (
    SELECT *, CASE WHEN unknown = 0 THEN level END AS parked
    FROM (
      SELECT
        utid,
        dur,
        ready_ns,
        arg_max(parked, ts) OVER sofar AS level,
        arg_max(unknown, ts) OVER sofar AS unknown,
      FROM (
        SELECT trace_id, ts, 0 AS turn, parked, unknown, NULL AS utid, NULL AS dur,
          NULL AS ready_ns,
        FROM parked_count(p_trace_id)
        UNION ALL
        SELECT trace_id, ts, 1, NULL, NULL, utid, dur, ready_ns FROM slice
      )
      WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
    )
    WHERE utid IS NOT NULL AND unknown IS NOT NULL
  )
SELECT
  -- Recording.
  any_value(who.trace_id) AS trace_id,
  -- Name of the process; null if not recorded.
  any_value(who.process) AS process,
  -- Name of the thread.
  any_value(who.thread) AS thread,
  -- Thread id.
  any_value(who.tid) AS tid,
  -- Thread, unique in the database.
  who.utid,
  -- Logical CPUs parked at the switch-in; null unless the state of all is known.
  placed.parked,
  -- Long slices.
  count(*) AS slices,
  -- Total length of these slices, ns. (no bounds)
  sum(placed.dur)::BIGINT AS run_ns,
  -- Longest, ns. (no bounds)
  max(placed.dur) AS longest_ns,
  -- Ready time before them, ns; null if none is known. (no bounds)
  sum(placed.ready_ns)::BIGINT AS ready_ns,
  -- Longest ready time before one, ns; null if none is known. (no bounds)
  max(placed.ready_ns) AS ready_max_ns,
FROM placed
JOIN who ON who.utid = placed.utid
GROUP BY who.utid, placed.parked
ORDER BY trace_id, who.utid, placed.parked NULLS LAST;
