-- Shared core time that idle cores could have taken if every thread were allowed on every CPU: at
-- each moment, the number of threads with an SMT sibling busy beyond the first of their core, at
-- most one for each whole idle core that is not parked. For the cores that the threads may use, see
-- avoidable_sharing_total.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  piece AS (
    SELECT
      c.trace_id,
      greatest(c.ts, start_ns) AS ts,
      least(c.ts + c.dur, end_ns) AS end_ns,
      least(c.threads, c.busy - 1) AS spare,
    FROM core_state AS c
    JOIN span ON span.trace_id = c.trace_id
    WHERE c.busy > 1 AND c.threads > 0
      AND c.ts < span.end_ns AND c.ts + c.dur > span.start_ns
  ),
  usable AS (
    SELECT
      idle.trace_id,
      greatest(idle.ts, start_ns) AS ts,
      least(idle.ts + idle.dur, end_ns) AS end_ns,
    FROM whole_idle_core(p_trace_id, 0) AS idle
    JOIN span ON span.trace_id = idle.trace_id
    -- Idle cores matter only where threads share one.
    SEMI JOIN piece ON piece.trace_id = idle.trace_id
    WHERE idle.ts < span.end_ns AND idle.ts + idle.dur > span.start_ns
  ),
  edge AS (
    SELECT trace_id, ts, sum(spare) AS spare, sum(idle) AS idle
    FROM (
      SELECT trace_id, ts, spare, 0 AS idle FROM piece
      UNION ALL
      SELECT trace_id, end_ns, -spare, 0 FROM piece
      UNION ALL
      SELECT trace_id, ts, 0, 1 FROM usable
      UNION ALL
      SELECT trace_id, end_ns, 0, -1 FROM usable
    )
    GROUP BY trace_id, ts
  ),
  level AS (
    SELECT
      trace_id,
      lead(ts) OVER (PARTITION BY trace_id ORDER BY ts) - ts AS dur,
      sum(spare) OVER (PARTITION BY trace_id ORDER BY ts) AS spare,
      sum(idle) OVER (PARTITION BY trace_id ORDER BY ts) AS idle,
    FROM edge
  ),
  summed AS (
    SELECT
      trace_id,
      sum(least(spare, idle) * dur)::BIGINT AS any_cpu_ns,
      max(least(spare, idle)) FILTER (WHERE dur > 0)::INTEGER AS most_at_once,
    FROM level
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  span.trace_id,
  -- Avoidable if every thread could use every CPU, counting idle periods of any length, ns.
  -- (at least)
  coalesce(summed.any_cpu_ns, 0)::BIGINT AS any_cpu_ns,
  -- Avoidable within the threads' affinity, counting idle periods of any length, ns. (at least)
  total.any_type_ns AS allowed_ns,
  -- Cost of the affinity: the difference, ns; null if the affinity of a sharing thread is unknown.
  -- (no bounds)
  CASE WHEN total.affinity_known IS DISTINCT FROM false
    THEN (coalesce(summed.any_cpu_ns, 0) - total.any_type_ns)::BIGINT END AS affinity_ns,
  -- affinity_ns as a share of the window: the mean number of threads that could not move, x 100.
  -- (no bounds)
  CASE WHEN total.affinity_known IS DISTINCT FROM false
    THEN 100.0 * (coalesce(summed.any_cpu_ns, 0) - total.any_type_ns) / nullif(span.dur_ns, 0)
    END AS affinity_pct,
  -- Most threads that idle cores could have taken at one moment, allowed or not.
  coalesce(summed.most_at_once, 0) AS most_at_once,
FROM span
JOIN avoidable_sharing_total(p_trace_id, p_from_ns, p_to_ns, 0) AS total USING (trace_id)
LEFT JOIN summed USING (trace_id)
ORDER BY span.trace_id;
