-- Spells in which all logical CPUs of a core stood idle and at least one of them could be used:
-- not parked, and its parking known.
-- p_trace_id: only this recording; null for all.
-- p_min_idle_ns [100000]: shortest stand-still of the core that counts.
WITH
  idle AS (
    SELECT trace_id, core, ts, ts + dur AS end_ns
    FROM core_state
    WHERE busy = 0 AND unknown = 0 AND online > 0 AND dur > 0
      AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  -- Rows of one stand-still that a change of something else cut.
  numbered AS (
    SELECT
      *,
      coalesce(ts <> lag(end_ns) OVER (PARTITION BY trace_id, core ORDER BY ts), true) AS begins,
    FROM idle
  ),
  still AS (
    SELECT trace_id, core, min(ts) AS ts, max(end_ns) AS end_ns
    FROM (
      SELECT *, count(*) FILTER (WHERE begins) OVER (
        PARTITION BY trace_id, core ORDER BY ts ROWS UNBOUNDED PRECEDING
      ) AS spell,
      FROM numbered
    )
    GROUP BY trace_id, core, spell
    HAVING max(end_ns) - min(ts) >= p_min_idle_ns
  ),
  place AS (
    SELECT trace_id, cpu, core, core_type, from_ns, to_ns
    FROM topology(p_trace_id)
    WHERE core IS NOT NULL AND online IS NOT FALSE
  ),
  parking AS MATERIALIZED (SELECT * FROM parking_spell(p_trace_id) WHERE dur > 0),
  -- Where parking changes inside a stand-still, the stand-still is cut.
  change AS (
    SELECT DISTINCT parking.trace_id, place.core, parking.ts
    FROM parking
    JOIN place ON place.trace_id = parking.trace_id AND place.cpu = parking.cpu
  ),
  cut AS (
    SELECT trace_id, core, ts AS still_ns, ts, end_ns FROM still
    UNION ALL
    SELECT still.trace_id, still.core, still.ts, change.ts, still.end_ns
    FROM change
    ASOF JOIN still
      ON still.trace_id = change.trace_id AND still.core = change.core AND still.ts < change.ts
    WHERE change.ts < still.end_ns
  ),
  piece AS (
    SELECT
      trace_id,
      core,
      ts,
      coalesce(
        lead(ts) OVER (PARTITION BY trace_id, core, still_ns ORDER BY ts), end_ns
      ) AS end_ns,
      end_ns - still_ns AS idle_ns,
    FROM cut
  ),
  each_cpu AS (
    SELECT piece.*, place.cpu, place.core_type
    FROM piece
    JOIN place
      ON place.trace_id = piece.trace_id AND place.core = piece.core
      AND piece.ts >= place.from_ns AND piece.ts < place.to_ns
  ),
  usable AS (
    SELECT e.*, parking.state
    FROM each_cpu AS e
    ASOF JOIN parking
      ON parking.trace_id = e.trace_id AND parking.cpu = e.cpu AND parking.ts <= e.ts
  )
SELECT
  -- Recording.
  trace_id,
  -- Core: the lowest logical CPU number of its siblings.
  core,
  -- Core type; null if unknown.
  any_value(core_type) AS core_type,
  -- Begin, ns.
  ts,
  -- Length, ns.
  (end_ns - ts)::BIGINT AS dur,
  -- Length of the whole stand-still, parked parts of it too, ns.
  any_value(idle_ns)::BIGINT AS idle_ns,
  -- Its logical CPUs that are not parked.
  list_sort(list(DISTINCT cpu)) AS cpus,
FROM usable
WHERE state = 'unparked' AND end_ns > ts
GROUP BY trace_id, core, ts, end_ns
ORDER BY trace_id, core, ts;
