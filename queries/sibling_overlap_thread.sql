-- How much of its running time each thread spent beside a busy sibling.
-- Threads that did not run in the window are left out.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  ran AS (
    SELECT utid, sum(least(ts + dur, end_ns) - greatest(ts, start_ns))::BIGINT AS run_ns
    FROM cpu_state
    JOIN span USING (trace_id)
    WHERE state = 'thread' AND ts < end_ns AND ts + dur > start_ns
    GROUP BY utid
  ),
  shared AS (
    SELECT utid, sum(least(ts + dur, end_ns) - greatest(ts, start_ns))::BIGINT AS shared_ns
    FROM sharing_slice
    JOIN span USING (trace_id)
    WHERE ts < end_ns AND ts + dur > start_ns
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
  -- Running time, ns.
  ran.run_ns,
  -- The part of it beside at least one busy sibling, ns.
  coalesce(shared.shared_ns, 0)::BIGINT AS shared_ns,
  -- That part as a share.
  100.0 * coalesce(shared.shared_ns, 0) / ran.run_ns AS shared_pct,
FROM ran
JOIN who ON who.utid = ran.utid
LEFT JOIN shared ON shared.utid = ran.utid
ORDER BY who.trace_id, shared_ns DESC, who.utid;
