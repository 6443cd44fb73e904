-- Running and ready time of all threads of each process, in blocks of the window. Processes of one
-- name are one.
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
  -- Threads without a recorded process may belong to any.
  owned AS (
    SELECT trace_id, utid, process FROM who WHERE process IS NOT NULL
    UNION ALL
    SELECT trace_id, utid, NULL AS process
    FROM thread_with_process(p_trace_id, NULL)
    WHERE process IS NULL
  ),
  place AS (FROM topology(p_trace_id)),
  -- The first wakeup of a thread alone says nothing about its waits.
  woken AS (SELECT DISTINCT trace_id FROM wakeup WHERE ends_wait(kind)),
  piece AS (
    SELECT
      t.trace_id,
      who.process,
      t.state,
      place.core_type,
      greatest(t.ts - span.from_ns, 0) AS begin_ns,
      least(t.ts + t.dur - span.from_ns, p_blocks * span.width_ns) AS end_ns,
      span.width_ns,
      unnest(range(begin_ns // span.width_ns, (end_ns - 1) // span.width_ns + 1)) AS block,
    FROM thread_state AS t
    JOIN span ON span.trace_id = t.trace_id
    JOIN owned AS who ON who.utid = t.utid
    LEFT JOIN place
      ON t.state = 'running' AND place.trace_id = t.trace_id AND place.cpu = t.cpu
      AND t.ts >= place.from_ns AND t.ts < place.to_ns
    LEFT JOIN woken ON woken.trace_id = t.trace_id
    -- Without wakeups, what seems to wait may be ready.
    WHERE (t.state IN ('running', 'ready', 'unknown') OR woken.trace_id IS NULL)
      AND t.ts + t.dur > t.ts
      AND t.ts < span.from_ns + p_blocks * span.width_ns AND t.ts + t.dur > span.from_ns
  ),
  summed AS (
    SELECT
      trace_id,
      process,
      block,
      coalesce(sum(ns) FILTER (WHERE state = 'running'), 0)::BIGINT AS run_ns,
      coalesce(sum(ns) FILTER (WHERE state = 'running' AND core_type IN ('E', 'LP-E')), 0)::BIGINT
        AS run_e_ns,
      coalesce(sum(ns) FILTER (WHERE state = 'running' AND core_type IS NULL), 0)::BIGINT
        AS run_untyped_ns,
      coalesce(sum(ns) FILTER (WHERE state = 'ready'), 0)::BIGINT AS ready_ns,
      coalesce(sum(ns) FILTER (WHERE state = 'unknown'), 0)::BIGINT AS unknown_ns,
      coalesce(sum(ns) FILTER (WHERE state IN ('waiting', 'new')), 0)::BIGINT AS unwoken_ns,
    FROM (
      SELECT *, overlap_ns(begin_ns, end_ns, block * width_ns, (block + 1) * width_ns) AS ns
      FROM piece
    )
    GROUP BY trace_id, process, block
  ),
  orphan AS (
    SELECT trace_id, block, run_ns + ready_ns + unknown_ns AS ns, unwoken_ns
    FROM summed
    WHERE process IS NULL
  ),
  named AS (SELECT DISTINCT trace_id, process FROM who)
SELECT
  -- Recording.
  b.trace_id,
  -- Name of the process, or of the group; null if not recorded.
  n.process,
  -- Number of the block in its recording, from 0.
  b.block,
  -- Start of the block, ns. (time)
  b.start_ns,
  -- Length of the block. (exact)
  b.dur_ns,
  -- Running time of its threads. (at least; unknown_ns more at most)
  coalesce(s.run_ns, 0)::BIGINT AS run_ns,
  -- The same on cores of type E or LP-E. (from run_e_ns to run_e_high_ns)
  coalesce(s.run_e_ns, 0)::BIGINT AS run_e_ns,
  -- run_e_ns and unknown_ns, and running time on cores whose type is not recorded. (bound)
  (
    coalesce(s.run_e_ns, 0) + coalesce(s.unknown_ns, 0)
    + coalesce(s.run_untyped_ns, 0)
    + CASE WHEN n.process IS NULL THEN 0 ELSE coalesce(orphan.ns, 0) END
  )::BIGINT AS run_e_high_ns,
  -- Ready time of its threads. (from ready_ns to ready_high_ns)
  coalesce(s.ready_ns, 0)::BIGINT AS ready_ns,
  -- ready_ns and unknown_ns; if no wakeups were recorded, also all time in which its threads may
  -- have waited, because that cannot be separated from ready time. (bound)
  (
    coalesce(s.ready_ns, 0) + coalesce(s.unknown_ns, 0) + coalesce(s.unwoken_ns, 0)
    + CASE
        WHEN n.process IS NULL THEN 0
        ELSE coalesce(orphan.ns, 0) + coalesce(orphan.unwoken_ns, 0)
      END
  )::BIGINT AS ready_high_ns,
  -- Time in which the state of its threads is unknown, and the running, ready and unknown time of
  -- threads without a recorded process. (bound)
  (
    coalesce(s.unknown_ns, 0)
    + CASE WHEN n.process IS NULL THEN 0 ELSE coalesce(orphan.ns, 0) END
  )::BIGINT AS unknown_ns,
FROM time_block(p_trace_id, p_from_ns, p_to_ns, p_blocks) AS b
JOIN named AS n ON n.trace_id = b.trace_id
LEFT JOIN summed AS s
  ON s.trace_id = b.trace_id AND s.block = b.block AND s.process IS NOT DISTINCT FROM n.process
LEFT JOIN orphan ON orphan.trace_id = b.trace_id AND orphan.block = b.block
ORDER BY b.trace_id, n.process, b.block;
