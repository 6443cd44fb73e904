-- How often threads that are not pinned continue on another CPU, and after how long: the time from
-- one move to the next, and the running time in it. A thread pinned to one CPU has no row. Moves
-- between which records may be lost have no time.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  ran AS (
    SELECT
      s.utid,
      sum(s.dur)::BIGINT AS run_ns,
      -- A slice whose start was not recorded may go on from before.
      count(*) FILTER (WHERE NOT s.left_censored) AS switches_in,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    WHERE NOT s.is_idle AND s.ts >= span.start_ns AND s.ts < span.end_ns
    GROUP BY s.utid
  ),
  allowed AS (
    SELECT
      utid,
      max(len(cpus)) FILTER (WHERE is_known) AS cpus,
      bool_and(is_known AND len(cpus) = 1) AS is_pinned,
    FROM affinity_spell(p_trace_id)
    GROUP BY utid
  ),
  moved AS (
    SELECT
      utid,
      count(*) AS moves,
      count(after_ns) AS timed,
      quantile_disc(after_ns, [0.1, 0.5, 0.9]) AS after,
      quantile_disc(run_ns, 0.5) AS run_p50_ns,
      max(after_ns) AS after_max_ns,
    FROM move_interval(p_trace_id, p_from_ns, p_to_ns, p_process)
    GROUP BY utid
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name of the process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  who.utid,
  -- CPUs that its known affinity allows at most; null if none is known.
  allowed.cpus::INTEGER AS allowed_cpus,
  -- Running time of slices that begin in the window, ns. (no bounds)
  ran.run_ns,
  -- Recorded switch-ins. (at least)
  ran.switches_in,
  -- Switch-ins on another CPU than before. (at least)
  coalesce(moved.moves, 0) AS moves,
  -- Moves per second of the window.
  1e9 * coalesce(moved.moves, 0) / nullif(span.dur_ns, 0) AS moves_per_s,
  -- Moves whose time since the move before is known.
  coalesce(moved.timed, 0) AS timed,
  -- 10th percentile of the time from one move to the next, ns; null if none is known. (no bounds)
  moved.after[1] AS after_p10_ns,
  -- Median of that time, ns. (no bounds)
  moved.after[2] AS after_p50_ns,
  -- 90th percentile of that time, ns. (no bounds)
  moved.after[3] AS after_p90_ns,
  -- Longest such time, ns. (no bounds)
  moved.after_max_ns,
  -- Median of the running time from one move to the next, ns. (no bounds)
  moved.run_p50_ns,
FROM ran
JOIN who ON who.utid = ran.utid
JOIN span ON span.trace_id = who.trace_id
LEFT JOIN allowed ON allowed.utid = ran.utid
LEFT JOIN moved ON moved.utid = ran.utid
WHERE allowed.is_pinned IS NOT TRUE
ORDER BY who.trace_id, moves DESC, who.utid;
