-- Ready time of each process by what kept its threads from running, in blocks of the window.
-- Processes of one name are one. The causes are those of ready_obstacle.
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
  ),
  piece AS (
    SELECT
      r.trace_id,
      who.process,
      r.obstacle,
      greatest(r.ts - span.from_ns, 0) AS begin_ns,
      least(r.ts + r.dur - span.from_ns, p_blocks * span.width_ns) AS end_ns,
      span.width_ns,
      unnest(range(begin_ns // span.width_ns, (end_ns - 1) // span.width_ns + 1)) AS block,
    FROM ready_obstacle_slice(p_trace_id, p_from_ns, p_to_ns) AS r
    JOIN span ON span.trace_id = r.trace_id
    JOIN who ON who.utid = r.utid
    WHERE r.ts + r.dur > r.ts AND r.ts < span.from_ns + p_blocks * span.width_ns AND r.ts + r.dur > span.from_ns
  ),
  summed AS (
    SELECT trace_id, process, obstacle, block, sum(ns)::BIGINT AS ready_ns
    FROM (
      SELECT *, overlap_ns(begin_ns, end_ns, block * width_ns, (block + 1) * width_ns) AS ns
      FROM piece
    )
    GROUP BY trace_id, process, obstacle, block
  ),
  named AS (SELECT DISTINCT trace_id, process, obstacle FROM summed)
SELECT
  -- Recording.
  b.trace_id,
  -- Name of the process, or of the group; null if not recorded.
  n.process,
  -- Why its threads were not running: throttled, idle_exit, idle_available, parked_available,
  -- all_busy or unknown.
  n.obstacle,
  -- Number of the block in its recording, from 0.
  b.block,
  -- Start of the block, ns. (time)
  b.start_ns,
  -- Length of the block. (exact)
  b.dur_ns,
  -- Ready time of its threads by this cause. (no bounds)
  coalesce(s.ready_ns, 0)::BIGINT AS ready_ns,
FROM time_block(p_trace_id, p_from_ns, p_to_ns, p_blocks) AS b
JOIN named AS n ON n.trace_id = b.trace_id
LEFT JOIN summed AS s
  ON s.trace_id = b.trace_id AND s.block = b.block AND s.obstacle = n.obstacle
  AND s.process IS NOT DISTINCT FROM n.process
ORDER BY b.trace_id, n.process, n.obstacle, b.block;
