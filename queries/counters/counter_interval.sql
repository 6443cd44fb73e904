-- Each interval between two counter readings on a logical CPU that has both cycles and
-- instructions, and the part of it with an SMT sibling busy. Only intervals entirely within the
-- window.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  named AS (
    SELECT
      d.*,
      regexp_matches(
        lower(d.counter), '(^|/)(cpu-cycles|cycles|totalcycles|unhaltedcorecycles)(/|:|$)'
      ) AS is_cycles,
    FROM counter_delta AS d
    WHERE (p_trace_id IS NULL OR d.trace_id = p_trace_id)
      AND d.counter IN (
        SELECT DISTINCT counter
        FROM counter_delta
        WHERE regexp_matches(
          lower(counter),
          '(^|/)(cpu-cycles|cycles|totalcycles|unhaltedcorecycles|instructions|instructions?retired)'
          || '(/|:|$)'
        )
      )
  ),
  pair AS MATERIALIZED (
    SELECT
      n.trace_id,
      n.cpu,
      n.utid,
      n.ts,
      n.dur,
      row_number() OVER () AS id,
      any_value(n.core_type) AS core_type,
      max(n.delta) FILTER (WHERE n.is_cycles) AS cycles,
      max(n.delta) FILTER (WHERE NOT n.is_cycles) AS instructions,
    FROM named AS n
    JOIN span ON span.trace_id = n.trace_id
    WHERE n.ts >= span.start_ns AND n.ts + n.dur <= span.end_ns AND n.dur > 0
    GROUP BY n.trace_id, n.cpu, n.utid, n.ts, n.dur
    HAVING cycles IS NOT NULL AND instructions IS NOT NULL
  ),
  -- One stream per thread contains the starts and ends of sharing (step_by) and of the intervals
  -- (sign). The shared time up to an interval's end minus that up to its start is exact.
  stream AS (
    SELECT utid, ts, 1 AS step_by, 0 AS sign, NULL AS id
    FROM sharing_slice
    WHERE dur > 0 AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION ALL
    SELECT utid, ts + dur, -1, 0, NULL
    FROM sharing_slice
    WHERE dur > 0 AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION ALL
    SELECT utid, ts, 0, -1, id FROM pair
    UNION ALL
    SELECT utid, ts + dur, 0, 1, id FROM pair
  ),
  level AS (
    SELECT
      utid,
      id,
      sign,
      row_number() OVER sofar AS place,
      CASE WHEN sum(step_by) OVER sofar > 0 THEN lead(ts) OVER sofar - ts ELSE 0 END AS shared_ns,
    FROM stream
    WINDOW sofar AS (PARTITION BY utid ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  shared AS (
    SELECT id, sum(sign * before_ns)::BIGINT AS shared_ns
    FROM (
      SELECT
        id,
        sign,
        coalesce(
          sum(shared_ns) OVER (
            PARTITION BY utid ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ),
          0
        ) AS before_ns,
      FROM level
    )
    WHERE id IS NOT NULL
    GROUP BY id
  ),
  -- The siblings' unknown time, in the same way, with one stream per CPU. If two CPUs of a core are
  -- busy, a busy sibling is certain.
  unclear AS MATERIALIZED (
    SELECT
      c.trace_id,
      place.cpu,
      greatest(c.ts, place.from_ns) AS from_ns,
      least(c.ts + c.dur, place.to_ns) AS to_ns,
    FROM core_state AS c
    JOIN topology(p_trace_id) AS place
      ON place.trace_id = c.trace_id AND place.core = c.core
      AND place.from_ns < c.ts + c.dur AND place.to_ns > c.ts
    WHERE c.unknown > 0 AND c.busy < 2 AND c.dur > 0
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  ),
  cpu_stream AS (
    SELECT trace_id, cpu, unnest([from_ns, to_ns]) AS ts, unnest([1, -1]) AS step_by, 0 AS sign,
      NULL AS id,
    FROM unclear
    UNION ALL
    SELECT trace_id, cpu, unnest([ts, ts + dur]), 0, unnest([-1, 1]), id
    FROM pair
    SEMI JOIN (SELECT DISTINCT trace_id, cpu FROM unclear) AS touched USING (trace_id, cpu)
  ),
  cpu_level AS (
    SELECT
      trace_id,
      cpu,
      id,
      sign,
      row_number() OVER sofar AS place,
      CASE WHEN sum(step_by) OVER sofar > 0 THEN lead(ts) OVER sofar - ts ELSE 0 END AS unclear_ns,
    FROM cpu_stream
    WINDOW sofar AS (PARTITION BY trace_id, cpu ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  sibling_unknown AS (
    SELECT id, sum(sign * before_ns)::BIGINT AS unknown_ns
    FROM (
      SELECT
        id,
        sign,
        coalesce(
          sum(unclear_ns) OVER (
            PARTITION BY trace_id, cpu ORDER BY place
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ),
          0
        ) AS before_ns,
      FROM cpu_level
    )
    WHERE id IS NOT NULL
    GROUP BY id
  )
SELECT
  -- Recording.
  pair.trace_id,
  -- Logical CPU.
  pair.cpu,
  -- Thread that ran, unique in the database.
  pair.utid,
  -- Start, ns. (time)
  pair.ts,
  -- Length, ns. (no bounds)
  pair.dur,
  -- Core type of the CPU; null if unknown.
  pair.core_type,
  -- Cycles counted.
  pair.cycles,
  -- Instructions counted.
  pair.instructions,
  -- Part of the interval with an SMT sibling busy, ns. (at least)
  shared.shared_ns,
  -- Part of the interval in which the state of a sibling is unknown and no sibling is known to be
  -- busy, ns. (no bounds)
  coalesce(sibling_unknown.unknown_ns, 0)::BIGINT AS unknown_ns,
FROM pair
JOIN shared ON shared.id = pair.id
LEFT JOIN sibling_unknown ON sibling_unknown.id = pair.id
SEMI JOIN (SELECT utid FROM thread WHERE NOT is_idle) AS own ON own.utid = pair.utid
ORDER BY pair.trace_id, pair.ts, pair.cpu, pair.utid;
