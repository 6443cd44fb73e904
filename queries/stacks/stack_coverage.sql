-- How many records have a stack, and how many functions in stacks have a name, by kind of record.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
WITH RECURSIVE
  record AS (
    -- Linux records the stack of the thread that leaves, Windows that of the one switched in.
    SELECT
      s.trace_id,
      'switch' AS kind,
      coalesce(s.stack_id, s.next_stack_id) AS stack_id,
      count(*) AS records,
    FROM context_switch AS s
    JOIN trace USING (trace_id)
    LEFT JOIN thread AS t
      ON t.utid = CASE WHEN trace.source = 'etw' THEN s.next_utid ELSE s.prev_utid END
    WHERE NOT coalesce(t.is_idle, FALSE) AND s.source = 'switch'
    GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'wakeup', stack_id, count(*)
    FROM wakeup
    WHERE kind IN ('waking', 'ready') OR stack_id IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT s.trace_id, 'sample', s.stack_id, count(*)
    FROM sample AS s
    LEFT JOIN thread AS t ON t.utid = s.utid
    WHERE NOT coalesce(t.is_idle, FALSE)
    GROUP BY ALL
  ),
  chosen AS (
    SELECT record.*
    FROM record
    SEMI JOIN stack USING (trace_id)
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  climbed AS (
    SELECT trace_id, kind, stack_id, records FROM chosen WHERE stack_id IS NOT NULL
    UNION ALL
    SELECT c.trace_id, c.kind, s.parent_id, c.records
    FROM climbed AS c
    JOIN stack AS s ON s.stack_id = c.stack_id
    -- Each caller is less deep, so that damaged stacks that call each other end.
    JOIN stack AS caller ON caller.stack_id = s.parent_id AND caller.depth < s.depth
  ),
  named AS (
    SELECT
      c.trace_id,
      c.kind,
      sum(c.records)::BIGINT AS frames,
      coalesce(sum(c.records) FILTER (WHERE f.symbol IS NOT NULL), 0)::BIGINT AS named_frames,
    FROM climbed AS c
    JOIN stack AS s ON s.stack_id = c.stack_id
    JOIN frame_symbol AS f ON f.frame_id = s.frame_id
    GROUP BY c.trace_id, c.kind
  ),
  total AS (
    SELECT
      trace_id,
      kind,
      sum(records)::BIGINT AS records,
      coalesce(sum(records) FILTER (WHERE stack_id IS NOT NULL), 0)::BIGINT AS with_stack,
    FROM chosen
    GROUP BY trace_id, kind
  )
SELECT
  -- Recording.
  total.trace_id,
  -- switch: a thread leaves its CPU (Windows: is switched in); wakeup: a thread wakes another; sample: a thread runs.
  total.kind,
  -- Records, without those of idle threads.
  total.records,
  -- Records that have a stack.
  total.with_stack,
  -- The same, percent.
  100.0 * total.with_stack / total.records AS with_stack_pct,
  -- Functions in these stacks, each as often as it was recorded.
  coalesce(named.frames, 0)::BIGINT AS frames,
  -- Functions whose name is known.
  coalesce(named.named_frames, 0)::BIGINT AS named_frames,
  -- The same, percent; null without any.
  100.0 * named.named_frames / nullif(named.frames, 0) AS named_pct,
FROM total
LEFT JOIN named USING (trace_id, kind)
ORDER BY total.trace_id, total.kind;
