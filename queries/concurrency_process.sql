-- How many threads of each process ran at once: time at each number, 0 left out.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  ran AS (
    SELECT
      c.trace_id,
      who.process,
      greatest(c.ts, start_ns) AS from_ns,
      least(c.ts + c.dur, end_ns) AS to_ns,
    FROM cpu_state AS c
    JOIN span ON span.trace_id = c.trace_id
    JOIN who ON who.utid = c.utid
    WHERE c.state = 'thread' AND c.ts < end_ns AND c.ts + c.dur > start_ns
  ),
  step AS (
    SELECT trace_id, process, ts, sum(step_by) AS step_by
    FROM (
      SELECT trace_id, process, from_ns AS ts, 1 AS step_by FROM ran
      UNION ALL
      SELECT trace_id, process, to_ns, -1 FROM ran
    )
    GROUP BY trace_id, process, ts
  ),
  level AS (
    SELECT
      trace_id,
      process,
      sum(step_by) OVER (PARTITION BY trace_id, process ORDER BY ts) AS running,
      lead(ts) OVER (PARTITION BY trace_id, process ORDER BY ts) - ts AS ns,
    FROM step
  )
SELECT
  -- Recording.
  level.trace_id,
  -- Name of the process; null: threads whose process is not recorded.
  level.process,
  -- Threads of it that ran at once.
  level.running::INTEGER AS running,
  -- Time with exactly so many, ns.
  sum(level.ns)::BIGINT AS ns,
  -- That time as a share of the window.
  100.0 * sum(level.ns) / nullif(any_value(span.dur_ns), 0) AS pct,
FROM level
JOIN span ON span.trace_id = level.trace_id
WHERE level.running > 0
GROUP BY level.trace_id, level.process, level.running
ORDER BY level.trace_id, level.process, level.running;
