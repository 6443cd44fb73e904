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
  -- Changes of the number of cores with a busy CPU (cpu -1), and of each CPU being busy.
  change AS (
    SELECT trace_id, -1 AS cpu, unnest([ts, ts + dur]) AS ts,
      unnest([p + e + other, -p - e - other]) AS step_by,
    FROM concurrency_slice
    WHERE dur > 0 AND trace_id IN (SELECT trace_id FROM step)
    UNION ALL
    SELECT trace_id, cpu, unnest([ts, ts + dur]), unnest([1, -1])
    FROM cpu_state
    WHERE state IN ('thread', 'interrupt') AND dur > 0
      AND trace_id IN (SELECT trace_id FROM step)
  ),
  -- Starts (sign -1) and ends (1) of the intervals, for the number of cores and for the CPU.
  side AS (
    SELECT
      trace_id,
      id,
      unnest([-1, -1, cpu, cpu]) AS cpu,
      unnest([from_ns, to_ns, from_ns, to_ns]) AS ts,
      unnest([-1, 1, -1, 1]) AS sign,
    FROM step
  ),
  edge AS (SELECT DISTINCT trace_id, cpu, ts FROM side),
  -- A change d at s adds d * (t - s) to the integral up to t. Of all changes before an edge, the sums
  -- of d and of d * s are enough, and there are fewer edges.
  since_edge AS (
    SELECT
      edge.trace_id,
      edge.cpu,
      edge.ts,
      sum(change.step_by) AS step_by,
      sum(change.step_by * change.ts) AS step_at,
    FROM change
    ASOF JOIN edge
      ON edge.trace_id = change.trace_id AND edge.cpu = change.cpu AND change.ts <= edge.ts
    GROUP BY edge.trace_id, edge.cpu, edge.ts
  ),
  upto AS (
    SELECT
      edge.trace_id,
      edge.cpu,
      edge.ts,
      coalesce(edge.ts * sum(step_by) OVER sofar - sum(step_at) OVER sofar, 0) AS product,
    FROM edge
    LEFT JOIN since_edge USING (trace_id, cpu, ts)
    WINDOW sofar AS (
      PARTITION BY edge.trace_id, edge.cpu ORDER BY edge.ts ROWS UNBOUNDED PRECEDING
    )
  ),
  summed AS (
    SELECT
      side.id,
      sum(side.sign * upto.product) FILTER (WHERE side.cpu = -1) AS active_product,
      sum(side.sign * upto.product) FILTER (WHERE side.cpu <> -1) AS busy_ns,
    FROM side
    JOIN upto USING (trace_id, cpu, ts)
    GROUP BY side.id
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
