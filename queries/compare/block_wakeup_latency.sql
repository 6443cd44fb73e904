-- Quantiles of the time from ready to switch-in, over the slices of each process that begin in a
-- block of the window. Processes of one name are one; blocks without such a slice have no row.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_blocks [120]: how many blocks.
-- p_process: only processes of this name, or a group such as service:nginx (group_thread), which
-- then counts as one process of that name; null for all.
WITH
  span AS (
    SELECT trace_id, start_ns AS from_ns, dur_ns // p_blocks AS width_ns
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
    WHERE dur_ns >= p_blocks
  ),
  who AS (
    SELECT * REPLACE (CASE WHEN is_group(p_process) THEN p_process ELSE process END AS process)
    FROM thread_with_process(p_trace_id, p_process)
  )
SELECT
  -- Recording.
  s.trace_id,
  -- Name of the process, or of the group; null if not recorded.
  who.process,
  -- Number of the block in its recording, from 0.
  ((s.ts - span.from_ns) // span.width_ns)::INTEGER AS block,
  -- Slices whose ready time is known.
  count(*) AS slices,
  -- Median. (no bounds)
  quantile_cont(s.ready_ns, 0.5) AS p50_ns,
  -- 95th percentile. (no bounds)
  quantile_cont(s.ready_ns, 0.95) AS p95_ns,
FROM sched_slice AS s
JOIN span ON span.trace_id = s.trace_id
JOIN who ON who.utid = s.utid
WHERE s.ready_ns IS NOT NULL AND NOT s.is_idle
  AND s.ts >= span.from_ns AND s.ts < span.from_ns + p_blocks * span.width_ns
GROUP BY ALL
ORDER BY s.trace_id, who.process, block;
