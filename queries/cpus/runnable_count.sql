-- Runnable threads against the machine's CPUs: time at each number of busy CPUs plus ready threads.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  machine AS (
    SELECT trace_id, count(DISTINCT cpu) AS cpus
    FROM topology(p_trace_id)
    WHERE online IS NOT FALSE
    GROUP BY trace_id
  ),
  piece AS (
    SELECT
      c.trace_id,
      c.busy + c.ready AS runnable,
      c.ready,
      c.busy + c.ready > coalesce(c.online, machine.cpus) AS is_above,
      c.ns,
      span.dur_ns,
    FROM concurrency_level(p_trace_id, p_from_ns, p_to_ns) AS c
    JOIN span ON span.trace_id = c.trace_id
    LEFT JOIN machine ON machine.trace_id = c.trace_id
  )
SELECT
  -- Recording.
  piece.trace_id,
  -- Busy logical CPUs plus ready threads.
  piece.runnable,
  -- Time with exactly this many, ns. (no bounds)
  sum(piece.ns)::BIGINT AS ns,
  -- ns as a share of the window, percent. (no bounds)
  100.0 * sum(piece.ns) / nullif(any_value(piece.dur_ns), 0) AS pct,
  -- Mean number of ready threads in this time.
  sum(piece.ready * piece.ns) / sum(piece.ns) AS ready,
  -- True if this was more than the online logical CPUs for all of this time; null if unknown.
  bool_and(piece.is_above) AS above_cpus,
  -- Part of ns in which this was more than the online logical CPUs, ns; null if unknown.
  -- (no bounds)
  sum(piece.ns * piece.is_above::INTEGER)::BIGINT AS above_ns,
FROM piece
WHERE piece.ns > 0
GROUP BY piece.trace_id, piece.runnable
ORDER BY piece.trace_id, piece.runnable;
