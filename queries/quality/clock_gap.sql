-- How far the run times of a recording may be off: the running time of every thread in both
-- snapshots, compared with its own CPU clock (thread_clock_check).
-- No rows without: snapshot_thread.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Threads that were checked.
  count(*) AS threads,
  -- Median of their gaps, percent of the running time in the trace; positive: the clock shows more.
  median(clock_gap_pct) AS median_gap_pct,
  -- Gap of the thread whose clock differs most from the trace, percent.
  arg_max(clock_gap_pct, abs(clock_gap_pct)) AS worst_gap_pct,
  -- That thread.
  arg_max(utid, abs(clock_gap_pct)) AS worst_utid,
  -- Largest gap in either direction, percent: run times of this recording may be off by this much.
  max(abs(clock_gap_pct)) AS clock_gap_pct,
FROM thread_clock_check(p_trace_id)
WHERE clock_gap_pct IS NOT NULL
GROUP BY trace_id
ORDER BY trace_id;
