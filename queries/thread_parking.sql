-- Long stays of threads by the number of logical CPUs parked when they began: whether a thread
-- runs long, or waits long for a CPU, when much is parked. A preemption in between is no end of the
-- work: see core_choice for whole times.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name; null for all.
-- p_thread: only threads of this name; null for all.
-- p_long_ns [1000000]: shortest stay that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (
    FROM thread_with_process(p_trace_id, p_process)
    WHERE p_thread IS NULL OR thread = p_thread
  ),
  level AS MATERIALIZED (
    SELECT trace_id, ts, CASE WHEN unknown = 0 THEN parked END AS parked
    FROM parked_count(p_trace_id)
  ),
  stay AS (
    SELECT s.trace_id, s.utid, s.ts, s.dur, s.ready_ns
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    SEMI JOIN who ON who.utid = s.utid
    WHERE s.dur >= p_long_ns AND s.ts >= span.start_ns AND s.ts < span.end_ns
      AND NOT s.left_censored
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
  -- Logical CPUs parked at the switch-in; null if not known of all.
  level.parked,
  -- Long stays.
  count(*) AS stays,
  -- Their sum, ns.
  sum(stay.dur)::BIGINT AS run_ns,
  -- Longest, ns.
  max(stay.dur) AS longest_ns,
  -- Time ready before them, ns; null if not known of any.
  sum(stay.ready_ns)::BIGINT AS ready_ns,
  -- Longest time ready before one, ns; null if not known of any.
  max(stay.ready_ns) AS ready_max_ns,
FROM stay
JOIN who ON who.utid = stay.utid
ASOF JOIN level ON level.trace_id = stay.trace_id AND level.ts <= stay.ts
GROUP BY who.utid, level.parked
ORDER BY trace_id, who.utid, level.parked NULLS LAST;
