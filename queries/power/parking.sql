-- How long each logical CPU was parked.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  piece AS (
    SELECT
      s.trace_id,
      s.cpu,
      s.state,
      s.reason,
      s.ts > span.start_ns AS changes,
      clipped_ns(s.ts, s.dur, span.start_ns, span.end_ns) AS ns,
      span.dur_ns,
    FROM parking_spell(p_trace_id) AS s
    JOIN span ON span.trace_id = s.trace_id
    WHERE s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
  ),
  place AS (
    SELECT trace_id, cpu, arg_max(core, from_ns) AS core, arg_max(core_type, from_ns) AS core_type
    FROM topology(p_trace_id)
    GROUP BY trace_id, cpu
  )
SELECT
  -- Recording.
  piece.trace_id,
  -- Logical CPU.
  piece.cpu,
  -- Core: the lowest logical CPU number of its siblings; null if unknown.
  any_value(place.core) AS core,
  -- Core type; null if unknown.
  any_value(place.core_type) AS core_type,
  -- Time parked, ns. (no bounds)
  coalesce(sum(ns) FILTER (WHERE state = 'parked'), 0)::BIGINT AS parked_ns,
  -- Time soft-parked, ns. (no bounds)
  coalesce(sum(ns) FILTER (WHERE state = 'soft_parked'), 0)::BIGINT AS soft_parked_ns,
  -- Time not parked, ns. (no bounds)
  coalesce(sum(ns) FILTER (WHERE state = 'unparked'), 0)::BIGINT AS unparked_ns,
  -- Time with unknown parking state, ns. (no bounds)
  coalesce(sum(ns) FILTER (WHERE state = 'unknown'), 0)::BIGINT AS unknown_ns,
  -- Time parked or soft-parked as a share of the known time, percent; null if none is known.
  -- (no bounds)
  100.0 * coalesce(sum(ns) FILTER (WHERE state IN ('parked', 'soft_parked')), 0)
    / nullif(sum(ns) FILTER (WHERE state <> 'unknown'), 0) AS parked_pct,
  -- Parking changes in the window.
  count(*) FILTER (WHERE changes) AS changes,
  -- Why it was parked; null if not recorded.
  list_sort(list(DISTINCT reason) FILTER (
    WHERE reason IS NOT NULL AND state IN ('parked', 'soft_parked')
  )) AS reasons,
FROM piece
LEFT JOIN place ON place.trace_id = piece.trace_id AND place.cpu = piece.cpu
GROUP BY piece.trace_id, piece.cpu
ORDER BY piece.trace_id, piece.cpu;
