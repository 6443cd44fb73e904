-- How long more than one SMT sibling of a core was busy, and how much of it moves to idle cores
-- would have avoided, in blocks of the window.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_blocks [120]: how many blocks.
WITH
  span AS (
    SELECT trace_id, start_ns AS from_ns, dur_ns // p_blocks AS width_ns
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
    WHERE dur_ns >= p_blocks
  ),
  piece AS (
    SELECT
      c.trace_id,
      c.busy,
      c.unknown,
      greatest(c.ts - span.from_ns, 0) AS begin_ns,
      least(c.ts + c.dur - span.from_ns, p_blocks * span.width_ns) AS end_ns,
      span.width_ns,
      unnest(range(begin_ns // span.width_ns, (end_ns - 1) // span.width_ns + 1)) AS block,
    FROM core_state AS c
    JOIN span ON span.trace_id = c.trace_id
    WHERE c.online > 1 AND c.ts + c.dur > c.ts AND c.ts < span.from_ns + p_blocks * span.width_ns
      AND c.ts + c.dur > span.from_ns
  ),
  summed AS (
    SELECT
      trace_id,
      block,
      coalesce(sum(ns) FILTER (WHERE unknown = 0 AND busy = 1), 0)::BIGINT AS one_ns,
      coalesce(sum(ns) FILTER (WHERE unknown = 0 AND busy > 1), 0)::BIGINT AS both_ns,
      coalesce(sum(ns) FILTER (WHERE unknown > 0), 0)::BIGINT AS unknown_ns,
    FROM (
      SELECT *, overlap_ns(begin_ns, end_ns, block * width_ns, (block + 1) * width_ns) AS ns
      FROM piece
    )
    GROUP BY trace_id, block
  ),
  match_piece AS (
    SELECT
      m.trace_id,
      m.any_type,
      greatest(m.ts - span.from_ns, 0) AS begin_ns,
      least(m.ts + m.dur - span.from_ns, p_blocks * span.width_ns) AS end_ns,
      span.width_ns,
      unnest(range(begin_ns // span.width_ns, (end_ns - 1) // span.width_ns + 1)) AS block,
    FROM avoidable_match AS m
    JOIN span ON span.trace_id = m.trace_id
    WHERE m.min_idle_ns = 100000 AND m.ts + m.dur > m.ts
      AND m.ts < span.from_ns + p_blocks * span.width_ns AND m.ts + m.dur > span.from_ns
  ),
  matched AS (
    SELECT
      trace_id,
      block,
      sum(any_type * overlap_ns(begin_ns, end_ns, block * width_ns, (block + 1) * width_ns))::BIGINT
        AS avoidable_ns,
    FROM match_piece
    GROUP BY trace_id, block
  )
SELECT
  -- Recording.
  b.trace_id,
  -- Number of the block in its recording, from 0.
  b.block,
  -- Start of the block, ns. (time)
  b.start_ns,
  -- Length of the block. (exact)
  b.dur_ns,
  -- Time of cores with exactly one sibling busy. (at least; unknown_ns more at most)
  s.one_ns,
  -- Time of cores with more than one sibling busy. (at least; unknown_ns more at most)
  s.both_ns,
  -- Shared time that moves to idle cores of any type would have avoided. (at least)
  coalesce(m.avoidable_ns, 0)::BIGINT AS avoidable_ns,
  -- Time of cores with a sibling in an unknown state. (bound)
  s.unknown_ns,
FROM time_block(p_trace_id, p_from_ns, p_to_ns, p_blocks) AS b
JOIN summed AS s ON s.trace_id = b.trace_id AND s.block = b.block
LEFT JOIN matched AS m ON m.trace_id = b.trace_id AND m.block = b.block
ORDER BY b.trace_id, b.block;
