-- What each process did in the window: sums over its threads.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name, or the threads of a group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  threads AS (FROM thread_summary(p_trace_id, p_from_ns, p_to_ns, p_process)),
  -- Threads without a recorded process may belong to any.
  orphan AS (
    SELECT
      s.trace_id,
      sum(clipped_ns(s.ts, s.dur, span.start_ns, span.end_ns))::BIGINT AS ns,
    FROM thread_state AS s
    JOIN thread AS t USING (utid)
    JOIN span ON span.trace_id = s.trace_id
    WHERE t.upid IS NULL AND NOT t.is_idle
      AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
    GROUP BY s.trace_id
  ),
  life AS (SELECT trace_id, upid, pid, start_ns, end_ns FROM process),
  owner AS (SELECT utid, upid FROM thread)
SELECT
  -- Recording.
  threads.trace_id,
  -- Name of the process; null if not recorded.
  any_value(threads.process) AS process,
  -- Process id; null if not recorded.
  any_value(threads.pid) AS pid,
  -- Process, unique in the database; null: threads without a recorded process.
  owner.upid,
  -- Threads with any time in the window.
  count(*) AS threads,
  -- Running time of its threads, ns. (from run_ns to run_high_ns)
  sum(run_ns)::BIGINT AS run_ns,
  -- Sum of run_high_ns of its threads and of the time of threads without a process, ns. (bound)
  sum(run_high_ns)::BIGINT
    + CASE WHEN owner.upid IS NULL THEN 0 ELSE coalesce(any_value(orphan.ns), 0) END AS run_high_ns,
  -- run_ns as a share of the window, percent of one logical CPU. (from run_pct to run_high_pct)
  100.0 * sum(run_ns) / nullif(any_value(span.dur_ns), 0) AS run_pct,
  -- run_high_ns as a share of the window, percent. (bound)
  100.0 * (
    sum(run_high_ns)
    + CASE WHEN owner.upid IS NULL THEN 0 ELSE coalesce(any_value(orphan.ns), 0) END
  ) / nullif(any_value(span.dur_ns), 0) AS run_high_pct,
  -- Ready time of its threads, ns. (at least; unknown_ns more at most)
  sum(ready_ns)::BIGINT AS ready_ns,
  -- Waiting (blocked) time of its threads, ns; null if no wakeups were recorded.
  -- (at least; unknown_ns more at most)
  sum(wait_ns)::BIGINT AS wait_ns,
  -- Time of its threads in an unknown state, plus the time of threads without a process, ns.
  -- (bound)
  sum(unknown_ns)::BIGINT
    + CASE WHEN owner.upid IS NULL THEN 0 ELSE coalesce(any_value(orphan.ns), 0) END AS unknown_ns,
  -- Switch-ins. (at least)
  sum(switches_in)::BIGINT AS switches_in,
  -- Switch-outs while still runnable, without a recorded yield.
  sum(involuntary_out)::BIGINT AS involuntary_out,
  -- Switch-ins on a different CPU than before.
  sum(migrations)::BIGINT AS migrations,
  -- Longest known ready time before a switch-in, ns. (at least)
  max(ready_max_ns) AS ready_max_ns,
  -- When it started, ns; null if it existed when the recording began. (time)
  any_value(life.start_ns) AS start_ns,
  -- When it ended, ns; null if it outlived the recording. (time)
  any_value(life.end_ns) AS end_ns,
  -- Cgroup of its threads; null: several, or not recorded.
  CASE WHEN count(DISTINCT threads.cgroup) = 1 THEN any_value(threads.cgroup) END AS cgroup,
  -- Container of its threads; null: several, none, or not recorded.
  CASE WHEN count(DISTINCT threads.container) = 1 THEN any_value(threads.container) END
    AS container,
  -- Systemd service or scope of its threads; null: several, none, or not recorded.
  CASE WHEN count(DISTINCT threads.service) = 1 THEN any_value(threads.service) END AS service,
FROM threads
JOIN span USING (trace_id)
JOIN owner USING (utid)
LEFT JOIN life ON life.upid = owner.upid
LEFT JOIN orphan ON orphan.trace_id = threads.trace_id
GROUP BY threads.trace_id, owner.upid
ORDER BY threads.trace_id, run_ns DESC, owner.upid;
