-- Busy logical CPUs, busy cores by type, and ready threads, in blocks of the window. A time of
-- several CPUs, cores or threads is their sum: divided by dur_ns it is their mean number.
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
      c.* EXCLUDE (ts, dur),
      greatest(c.ts - span.from_ns, 0) AS begin_ns,
      least(c.ts + c.dur - span.from_ns, p_blocks * span.width_ns) AS end_ns,
      span.width_ns,
      unnest(range(begin_ns // span.width_ns, (end_ns - 1) // span.width_ns + 1)) AS block,
    FROM concurrency_slice AS c
    JOIN span ON span.trace_id = c.trace_id
    WHERE c.ts + c.dur > c.ts AND c.ts < span.from_ns + p_blocks * span.width_ns AND c.ts + c.dur > span.from_ns
  ),
  clipped AS (
    SELECT *, overlap_ns(begin_ns, end_ns, block * width_ns, (block + 1) * width_ns) AS ns
    FROM piece
  ),
  summed AS (
    SELECT
      trace_id,
      block,
      sum(busy * ns)::BIGINT AS busy_ns,
      sum(unknown * ns)::BIGINT AS unknown_ns,
      sum(ready * ns)::BIGINT AS ready_ns,
      sum(p * ns)::BIGINT AS p_ns,
      sum(e * ns)::BIGINT AS e_ns,
      sum(smt * ns)::BIGINT AS smt_ns,
    FROM clipped
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
  -- Busy time of all logical CPUs. (at least; unknown_ns more at most)
  s.busy_ns,
  -- Ready time of all threads. (no bounds)
  s.ready_ns,
  -- Time of cores of type P or U with a busy CPU. (no bounds)
  s.p_ns,
  -- Time of cores of type E or LP-E with a busy CPU. (no bounds)
  s.e_ns,
  -- Busy time of logical CPUs beyond the first busy one of their core. (no bounds)
  s.smt_ns,
  -- Time of logical CPUs in an unknown state. (bound)
  s.unknown_ns,
FROM time_block(p_trace_id, p_from_ns, p_to_ns, p_blocks) AS b
JOIN summed AS s ON s.trace_id = b.trace_id AND s.block = b.block
ORDER BY b.trace_id, b.block;
