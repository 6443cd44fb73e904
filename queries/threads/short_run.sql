-- Runs of each thread after a wakeup: from the switch-in that a wakeup (or the end of a wait) led
-- to, up to the next wait, without the time in which it was preempted. Slices are left out if lost
-- records leave open which run they belong to. Threads with mostly short runs look like workers
-- that find little to do. Runs that start in the window.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_short_ns [1000000]: a run shorter than this is short.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  slice AS (
    SELECT
      s.trace_id,
      s.utid,
      s.ts,
      s.dur,
      s.end_reason,
      s.right_censored,
      (coalesce(s.wait_ns, 0) > 0 OR s.waker_utid IS NOT NULL) AND NOT s.left_censored AS woken,
      s.left_censored OR s.ready_ns IS NULL AS is_open,
      -- Lost records may hide how the wait ended, but not that there was one.
      woken
      OR is_open
      OR coalesce(lag(s.end_reason) OVER (PARTITION BY s.utid ORDER BY s.ts, s.dur), '')
        IN ('blocked', 'exit') AS begins,
    FROM sched_slice AS s
    -- A slice of zero length at a gap may belong to a run that lasts into the gap.
    WHERE (p_process IS NULL OR s.utid IN (SELECT utid FROM who))
      AND NOT s.is_idle
      AND (s.dur > 0 OR s.left_censored OR s.right_censored OR s.ready_ns IS NULL)
  ),
  numbered AS (
    SELECT
      *,
      coalesce(lead(begins) OVER sofar, true) AS ends,
      count(CASE WHEN begins THEN 1 END) OVER sofar AS run,
    FROM slice
    WINDOW sofar AS (PARTITION BY utid ORDER BY ts, dur ROWS UNBOUNDED PRECEDING)
  ),
  -- Most runs are one slice, which needs no grouping.
  run AS (
    SELECT
      trace_id,
      utid,
      ts,
      dur AS run_ns,
      1 AS slices,
      right_censored OR end_reason NOT IN ('blocked', 'exit') AS is_cut,
      is_open AND NOT woken AS is_open,
    FROM numbered
    WHERE begins AND ends
    UNION ALL
    SELECT
      any_value(trace_id),
      utid,
      min(ts),
      sum(dur),
      count(*),
      bool_or(right_censored OR (ends AND end_reason NOT IN ('blocked', 'exit'))),
      bool_or(is_open AND NOT woken),
    FROM numbered
    WHERE run > 0 AND NOT (begins AND ends)
    GROUP BY utid, run
  ),
  summed AS (
    SELECT
      run.utid,
      count(*) AS runs,
      count(*) FILTER (WHERE run_ns < p_short_ns) AS short_runs,
      sum(run_ns)::BIGINT AS run_ns,
      sum(run_ns) FILTER (WHERE run_ns < p_short_ns) AS short_ns,
      quantile_disc(run_ns, 0.5) AS p50_ns,
      max(run_ns) AS longest_ns,
      count(*) FILTER (WHERE slices > 1) AS interrupted,
    FROM run
    JOIN span ON span.trace_id = run.trace_id
    -- A run whose end is not recorded is only known to last as long as it was seen.
    WHERE NOT run.is_open AND run.ts >= span.start_ns AND run.ts < span.end_ns
      AND NOT (is_cut AND run_ns < p_short_ns)
    GROUP BY run.utid
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
  -- Runs after a wakeup.
  summed.runs,
  -- Short runs.
  summed.short_runs,
  -- short_runs as a share of the runs, percent. (no bounds)
  100.0 * summed.short_runs / summed.runs AS short_pct,
  -- Running time in all runs, ns. (at least)
  summed.run_ns,
  -- Part of run_ns in short runs, ns. (no bounds)
  coalesce(summed.short_ns, 0)::BIGINT AS short_ns,
  -- Median run, ns. (no bounds)
  summed.p50_ns::BIGINT AS p50_ns,
  -- Longest run, ns. (at least)
  summed.longest_ns::BIGINT AS longest_ns,
  -- Runs in which it lost its CPU before it waited again.
  summed.interrupted,
FROM summed
JOIN who ON who.utid = summed.utid
ORDER BY who.trace_id, summed.run_ns DESC, who.utid;
