-- Events that hardware counters counted while each process ran, in blocks of the window. An
-- interval between two readings belongs to the block in which it begins. Processes of one name are
-- one; blocks without an interval have no row.
-- No rows without: counter_delta.
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
  d.trace_id,
  -- Name of the process, or of the group; null if not recorded.
  who.process,
  -- Name of the counter.
  d.counter,
  -- Number of the block in its recording, from 0.
  ((d.ts - span.from_ns) // span.width_ns)::INTEGER AS block,
  -- Events counted.
  sum(d.delta)::BIGINT AS events,
  -- Length of the intervals. (no bounds)
  sum(d.dur)::BIGINT AS run_ns,
FROM counter_delta AS d
JOIN span ON span.trace_id = d.trace_id
JOIN who ON who.utid = d.utid
WHERE d.dur > 0 AND d.ts >= span.from_ns AND d.ts < span.from_ns + p_blocks * span.width_ns
GROUP BY ALL
ORDER BY d.trace_id, who.process, d.counter, block;
