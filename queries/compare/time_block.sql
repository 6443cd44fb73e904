-- The window of each recording in blocks of equal length: the units in which `schedlens compare`
-- compares two recordings. Less than one nanosecond per block is left over at the end.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_blocks [120]: how many blocks.
WITH span AS (
  SELECT trace_id, start_ns, dur_ns // p_blocks AS width_ns, unnest(range(p_blocks)) AS block
  FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
  WHERE dur_ns >= p_blocks
)
SELECT
  -- Recording.
  trace_id,
  -- Number of the block in its recording, from 0.
  block::INTEGER AS block,
  -- Start of the block, ns. (time)
  (start_ns + block * width_ns)::BIGINT AS start_ns,
  -- Length of the block, the same for all of a recording. (exact)
  width_ns::BIGINT AS dur_ns,
FROM span
ORDER BY trace_id, block;
