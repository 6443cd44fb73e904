-- Periods in which all online logical CPUs of a core were idle and at least one of them was usable:
-- known to be not parked.
-- p_trace_id: only this recording; null for all.
-- p_min_idle_ns [100000]: shortest idle period of the core that counts.
WITH
  idle AS (
    SELECT trace_id, core, ts, ts + dur AS end_ns
    FROM core_state
    WHERE busy = 0 AND unknown = 0 AND online > 0 AND dur > 0
      AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  -- Rows of one idle period that a change of another column split.
  edge AS (
    SELECT
      *,
      coalesce(ts <> lag(end_ns) OVER in_order, true) AS begins,
      coalesce(end_ns <> lead(ts) OVER in_order, true) AS ends,
    FROM idle
    WINDOW in_order AS (PARTITION BY trace_id, core ORDER BY ts)
  ),
  idle_period AS (
    SELECT trace_id, core, ts, last_ns AS end_ns
    FROM (
      SELECT
        *,
        CASE WHEN ends THEN end_ns
          ELSE lead(end_ns) OVER (PARTITION BY trace_id, core ORDER BY ts) END AS last_ns,
      FROM edge
      WHERE begins OR ends
    )
    WHERE begins AND last_ns - ts >= p_min_idle_ns
  ),
  place AS (
    SELECT trace_id, cpu, core, core_type, from_ns, to_ns
    FROM topology(p_trace_id)
    LEFT JOIN (
      SELECT DISTINCT trace_id, cpu
      FROM cpu_state
      WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    ) AS traced USING (trace_id, cpu)
    -- If the trace has events of a CPU, the trace decides when that CPU is offline.
    WHERE core IS NOT NULL AND (traced.cpu IS NOT NULL OR online IS NOT FALSE)
  ),
  -- Changes of each CPU: whether it is unparked, and whether it is offline. The largest of the codes
  -- so far is that of the last change, which last_value would search backwards from each row.
  turn AS MATERIALIZED (
    SELECT trace_id, cpu, ts, 2 * ts + (state = 'unparked')::BIGINT AS code, 0 AS offline_step
    FROM parking_spell(p_trace_id)
    WHERE dur > 0
    UNION ALL
    SELECT trace_id, cpu, unnest([ts, ts + dur]), NULL, unnest([1, -1])
    FROM cpu_state
    WHERE state = 'offline' AND dur > 0 AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  -- Such a change while the core is idle splits the idle period.
  change AS (
    SELECT DISTINCT turn.trace_id, place.core, turn.ts
    FROM turn
    JOIN place ON place.trace_id = turn.trace_id AND place.cpu = turn.cpu
  ),
  -- A change at the start of an idle period splits nothing, because it sorts first.
  mixed AS (
    SELECT trace_id, core, ts, NULL AS idle_from_ns, NULL AS end_ns, 0 AS turn FROM change
    UNION ALL
    SELECT trace_id, core, ts, ts, end_ns, 1 FROM idle_period
  ),
  cut AS (
    SELECT *
    FROM (
      SELECT
        trace_id,
        core,
        ts,
        max(idle_from_ns) OVER sofar AS idle_from_ns,
        max(end_ns) OVER sofar AS end_ns,
      FROM mixed
      WINDOW sofar AS (PARTITION BY trace_id, core ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
    )
    WHERE ts < end_ns
  ),
  piece AS (
    SELECT
      trace_id,
      core,
      ts,
      coalesce(
        lead(ts) OVER (PARTITION BY trace_id, core, idle_from_ns ORDER BY ts), end_ns
      ) AS end_ns,
      end_ns - idle_from_ns AS idle_ns,
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
    SELECT
      * EXCLUDE (code),
      (max(code) OVER sofar & 1) = 1 AS unparked,
      sum(offline_step) OVER sofar > 0 AS offline,
    FROM (
      SELECT trace_id, cpu, ts, code, offline_step, 0 AS turn, NULL AS core, NULL AS core_type,
        NULL AS end_ns, NULL AS idle_ns,
      FROM turn
      UNION ALL
      SELECT trace_id, cpu, ts, NULL, 0, 1, core, core_type, end_ns, idle_ns FROM each_cpu
    )
    WINDOW sofar AS (PARTITION BY trace_id, cpu ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
  )
SELECT
  -- Recording.
  trace_id,
  -- Core: the lowest logical CPU number of its siblings.
  core,
  -- Core type of its lowest logical CPU; null if unknown.
  arg_min(core_type, cpu) AS core_type,
  -- Start, ns. (time)
  ts,
  -- Length, ns. (at least)
  (end_ns - ts)::BIGINT AS dur,
  -- Length of the whole idle period, including parked parts, ns. (at least)
  any_value(idle_ns)::BIGINT AS idle_ns,
  -- Its logical CPUs that are online and not parked.
  list_sort(list(cpu)) AS cpus,
FROM usable
WHERE unparked AND NOT offline AND end_ns > ts
GROUP BY trace_id, core, ts, end_ns
ORDER BY trace_id, core, ts;
