-- How many logical CPUs were parked over time: intervals of constant count that cover the
-- recording.
-- p_trace_id: only this recording; null for all.
WITH
  spell AS (SELECT * FROM parking_spell(p_trace_id) WHERE dur > 0),
  edge AS (
    SELECT
      trace_id,
      ts,
      sum(parked) AS parked,
      sum(soft) AS soft,
      sum(unknown_count) AS unknown_count,
    FROM (
      SELECT
        trace_id,
        unnest([ts, ts + dur]) AS ts,
        unnest([1, -1]) * (state = 'parked')::INTEGER AS parked,
        unnest([1, -1]) * (state = 'soft_parked')::INTEGER AS soft,
        unnest([1, -1]) * (state = 'unknown')::INTEGER AS unknown_count,
      FROM spell
    )
    GROUP BY trace_id, ts
  ),
  level AS (
    SELECT
      trace_id,
      ts,
      lead(ts) OVER sofar - ts AS dur,
      sum(parked) OVER sofar AS parked,
      sum(soft) OVER sofar AS soft,
      sum(unknown_count) OVER sofar AS unknown_count,
    FROM edge
    WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts)
  ),
  changed AS (
    SELECT *
    FROM level
    WHERE dur > 0
    QUALIFY (parked, soft, unknown_count) IS DISTINCT FROM (
      lag(parked) OVER (PARTITION BY trace_id ORDER BY ts),
      lag(soft) OVER (PARTITION BY trace_id ORDER BY ts),
      lag(unknown_count) OVER (PARTITION BY trace_id ORDER BY ts)
    )
  ),
  last AS (SELECT trace_id, max(ts + dur) AS end_ns FROM spell GROUP BY trace_id)
SELECT
  -- Recording.
  c.trace_id,
  -- Start, ns. (time)
  c.ts,
  -- Length, ns. (no bounds)
  (
    coalesce(lead(c.ts) OVER (PARTITION BY c.trace_id ORDER BY c.ts), last.end_ns) - c.ts
  )::BIGINT AS dur,
  -- Logical CPUs that are parked.
  c.parked::INTEGER AS parked,
  -- Logical CPUs that are soft-parked: avoided, but usable.
  c.soft::INTEGER AS soft_parked,
  -- Logical CPUs whose parking state is unknown.
  c.unknown_count::INTEGER AS unknown,
FROM changed AS c
JOIN last ON last.trace_id = c.trace_id
ORDER BY c.trace_id, c.ts;
