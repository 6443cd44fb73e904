-- How much can run at once on each machine: one thread a P core, one a core, one a logical CPU.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording.
  trace_id,
  -- P: cores of type P or U; 0 if the types are unknown.
  count(DISTINCT core) FILTER (WHERE core_type IN ('P', 'U')) AS p_cores,
  -- P+E: all cores; 0 if unknown.
  count(DISTINCT core) AS cores,
  -- P+E+SMT: all logical CPUs.
  count(DISTINCT cpu) AS cpus,
FROM topology(p_trace_id)
WHERE online IS NOT FALSE
GROUP BY trace_id
ORDER BY trace_id;
