-- Parked time and recorded frequency of all logical CPUs, in blocks of the window.
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
  stepped AS (
    SELECT trace_id, ts, ts + dur AS until_ns, 0 AS khz, state
    FROM parking_spell(p_trace_id)
    UNION ALL
    SELECT
      c.trace_id,
      c.ts,
      coalesce(
        lead(c.ts) OVER (PARTITION BY c.trace_id, c.cpu ORDER BY c.ts),
        greatest(c.ts, trace.duration_ns)
      ),
      c.khz,
      'clock',
    FROM cpu_frequency AS c
    JOIN trace ON trace.trace_id = c.trace_id
    WHERE p_trace_id IS NULL OR c.trace_id = p_trace_id
  ),
  piece AS (
    SELECT
      c.trace_id,
      c.khz,
      c.state,
      greatest(c.ts - span.from_ns, 0) AS begin_ns,
      least(c.until_ns - span.from_ns, p_blocks * span.width_ns) AS end_ns,
      span.width_ns,
      unnest(range(begin_ns // span.width_ns, (end_ns - 1) // span.width_ns + 1)) AS block,
    FROM stepped AS c
    JOIN span ON span.trace_id = c.trace_id
    WHERE c.until_ns > c.ts AND c.ts < span.from_ns + p_blocks * span.width_ns
      AND c.until_ns > span.from_ns
  ),
  summed AS (
    SELECT
      trace_id,
      block,
      sum(ns) FILTER (WHERE state <> 'clock')::BIGINT AS cpu_ns,
      sum(ns) FILTER (WHERE state IN ('parked', 'soft_parked'))::BIGINT AS parked_ns,
      sum(ns) FILTER (WHERE state = 'unknown')::BIGINT AS parking_unknown_ns,
      sum(ns) FILTER (WHERE state = 'clock')::BIGINT AS clock_ns,
      sum(khz::DOUBLE * ns) FILTER (WHERE state = 'clock') AS khz_ns,
    FROM (
      SELECT *, overlap_ns(begin_ns, end_ns, block * width_ns, (block + 1) * width_ns) AS ns
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
  -- Parked or soft-parked time of all logical CPUs; null if the parking of one is unknown.
  -- (no bounds)
  CASE WHEN s.cpu_ns > 0 AND coalesce(s.parking_unknown_ns, 0) = 0
    THEN coalesce(s.parked_ns, 0) END::BIGINT AS parked_ns,
  -- Time of all logical CPUs with a recorded frequency; null if there is none. (at least)
  s.clock_ns,
  -- Mean frequency over clock_ns, kHz.
  s.khz_ns / nullif(s.clock_ns, 0) AS avg_khz,
FROM time_block(p_trace_id, p_from_ns, p_to_ns, p_blocks) AS b
JOIN summed AS s ON s.trace_id = b.trace_id AND s.block = b.block
ORDER BY b.trace_id, b.block;
