-- Work that the workers of a kernel did, in blocks of the window. The work of a batch is spread
-- evenly over its length.
-- No rows without: run_sample.
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
      r.trace_id,
      r.iterations / (r.end_ns - r.start_ns) AS iterations_per_ns,
      r.bytes / (r.end_ns - r.start_ns) AS bytes_per_ns,
      greatest(r.start_ns - span.from_ns, 0) AS begins_ns,
      least(r.end_ns - span.from_ns, p_blocks * span.width_ns) AS ends_ns,
      span.width_ns,
      unnest(range(begins_ns // span.width_ns, (ends_ns - 1) // span.width_ns + 1)) AS block,
    FROM run_sample AS r
    JOIN span ON span.trace_id = r.trace_id
    WHERE r.end_ns > r.start_ns AND r.start_ns < span.from_ns + p_blocks * span.width_ns AND r.end_ns > span.from_ns
  ),
  summed AS (
    SELECT
      trace_id,
      block,
      sum(iterations_per_ns * ns) AS iterations,
      sum(bytes_per_ns * ns) AS bytes,
    FROM (
      SELECT *, overlap_ns(begins_ns, ends_ns, block * width_ns, (block + 1) * width_ns) AS ns
      FROM piece
    )
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
  -- Iterations of all workers.
  s.iterations,
  -- Bytes of all workers; 0 for kernels without data.
  s.bytes,
FROM time_block(p_trace_id, p_from_ns, p_to_ns, p_blocks) AS b
JOIN summed AS s ON s.trace_id = b.trace_id AND s.block = b.block
ORDER BY b.trace_id, b.block;
