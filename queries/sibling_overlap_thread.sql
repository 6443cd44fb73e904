-- How much of its running time each thread spent beside a busy sibling.
-- Threads that did not run in the window are left out.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name; null for all.
WITH
  used AS (
    SELECT
      trace_id,
      any_value(process) AS process,
      any_value(thread) AS thread,
      any_value(tid) AS tid,
      utid,
      sum(run_ns)::BIGINT AS run_ns,
      sum(shared_ns)::BIGINT AS shared_ns,
      sum(sibling_unknown_ns) AS sibling_unknown_ns,
    FROM thread_core_use(p_trace_id, p_from_ns, p_to_ns, p_process)
    GROUP BY trace_id, utid
    HAVING sum(run_ns) > 0
  )
SELECT
  -- Recording.
  used.trace_id,
  -- Process; null if not recorded.
  used.process,
  -- Name of the thread.
  used.thread,
  -- Its thread id.
  used.tid,
  -- The thread, unique in the database.
  used.utid,
  -- Running time, ns. (at least; unknown_ns more at most)
  used.run_ns,
  -- The part of it beside at least one busy sibling, ns. (at least; unknown_ns more at most)
  used.shared_ns,
  -- That part as a share.
  100.0 * used.shared_ns / used.run_ns AS shared_pct,
  -- Time in which its own state is unknown, or that of a sibling while it ran, ns. (bound)
  (used.sibling_unknown_ns + coalesce(t.unknown_ns, 0))::BIGINT AS unknown_ns,
FROM used
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t ON t.utid = used.utid
ORDER BY used.trace_id, used.shared_ns DESC, used.utid;
