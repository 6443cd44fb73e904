-- Each interval in which a logical CPU kept its frequency: how long it was busy, and how many cores
-- had a busy CPU meanwhile. Clipped to the window.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  step AS MATERIALIZED (
    SELECT
      f.trace_id,
      f.cpu,
      f.khz,
      greatest(f.ts, span.start_ns) AS from_ns,
      least(f.until_ns, span.end_ns) AS to_ns,
      row_number() OVER () AS id,
    FROM (
      SELECT
        c.*,
        coalesce(
          lead(c.ts) OVER (PARTITION BY c.trace_id, c.cpu ORDER BY c.ts),
          greatest(c.ts, trace.duration_ns)
        ) AS until_ns,
      FROM cpu_frequency AS c
      JOIN trace ON trace.trace_id = c.trace_id
      WHERE p_trace_id IS NULL OR c.trace_id = p_trace_id
    ) AS f
    JOIN span ON span.trace_id = f.trace_id
    WHERE f.ts < span.end_ns AND f.until_ns > span.start_ns
  ),
  -- One stream of changes: cores with a busy CPU (cpu null), busy time of each CPU, and the
  -- intervals.
  stream AS (
    SELECT trace_id, -1 AS cpu, unnest([ts, ts + dur]) AS ts,
      unnest([p + e + other, -p - e - other]) AS step_by, 0 AS sign, NULL AS id,
    FROM concurrency_slice
    WHERE dur > 0 AND trace_id IN (SELECT trace_id FROM step)
    UNION ALL
    SELECT trace_id, cpu, unnest([ts, ts + dur]), unnest([1, -1]), 0, NULL,
    FROM cpu_state
    WHERE state IN ('thread', 'interrupt') AND dur > 0
      AND trace_id IN (SELECT trace_id FROM step)
    UNION ALL
    SELECT trace_id, unnest([-1, -1, cpu, cpu]), unnest([from_ns, to_ns, from_ns, to_ns]), 0,
      unnest([-1, 1, -1, 1]), id,
    FROM step
  ),
  level AS (
    SELECT
      *,
      row_number() OVER sofar AS place,
      sum(step_by) OVER sofar * (lead(ts) OVER sofar - ts) AS product,
    FROM stream
    WINDOW sofar AS (PARTITION BY trace_id, cpu ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  summed AS (
    SELECT
      id,
      sum(sign * before) FILTER (WHERE cpu = -1) AS active_product,
      sum(sign * before) FILTER (WHERE cpu <> -1) AS busy_ns,
    FROM (
      SELECT
        *,
        coalesce(
          sum(product) OVER (
            PARTITION BY trace_id, cpu ORDER BY place
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ),
          0
        ) AS before,
      FROM level
    )
    WHERE id IS NOT NULL
    GROUP BY id
  ),
  place AS (FROM topology(p_trace_id))
SELECT
  -- Recording.
  step.trace_id,
  -- Logical CPU.
  step.cpu,
  -- Core type; null if unknown.
  place.core_type,
  -- Start, ns. (time)
  step.from_ns,
  -- Length, ns. (no bounds)
  (step.to_ns - step.from_ns)::BIGINT AS dur,
  -- Frequency, kHz.
  step.khz,
  -- Time in which this CPU was busy, ns. (no bounds)
  summed.busy_ns::BIGINT AS busy_ns,
  -- Mean number of cores with a busy CPU, all types.
  summed.active_product / (step.to_ns - step.from_ns) AS active,
FROM step
JOIN summed ON summed.id = step.id
LEFT JOIN place
  ON place.trace_id = step.trace_id AND place.cpu = step.cpu
  AND step.from_ns >= place.from_ns AND step.from_ns < place.to_ns
WHERE step.to_ns > step.from_ns
ORDER BY step.trace_id, step.cpu, step.from_ns;
