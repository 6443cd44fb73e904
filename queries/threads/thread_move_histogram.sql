-- After how long threads that are not pinned continue on another CPU, as a distribution: moves by
-- the time since the move before, in buckets each twice as wide as the one before.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  bucket AS (
    SELECT
      trace_id,
      -- Powers of two from 1 us on; the first bucket has all that is shorter.
      (1000 * 2 ** greatest(0, ceil(log2(greatest(after_ns, 1) / 1000.0))))::BIGINT AS to_ns,
      count(*) AS moves,
      count(DISTINCT utid) AS threads,
    FROM move_interval(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE after_ns IS NOT NULL
    GROUP BY ALL
  )
SELECT
  -- Recording.
  trace_id,
  -- Upper end of the bucket: the time since the move before is no longer, ns. (no bounds)
  to_ns,
  -- Moves in it.
  moves,
  -- The same as a share of all moves whose time is known, percent. (no bounds)
  100.0 * moves / sum(moves) OVER (PARTITION BY trace_id) AS moves_pct,
  -- Threads that made them.
  threads,
FROM bucket
ORDER BY trace_id, to_ns;
