-- Pressure stall information of Linux: how long threads of the whole machine were stalled for CPUs,
-- I/O or memory between the snapshots of a step. The kernel adds these times up every 2 s only, so
-- each reading may lack the last 2 s.
-- No rows without: snapshot_pressure.
-- p_trace_id: only this recording; null for all.
WITH
  edge AS (
    SELECT
      trace_id,
      resource,
      max(ts) FILTER (WHERE edge = 'end') - max(ts) FILTER (WHERE edge = 'begin') AS step_ns,
      max(some_ns) FILTER (WHERE edge = 'end')
        - max(some_ns) FILTER (WHERE edge = 'begin') AS some_ns,
      max(full_ns) FILTER (WHERE edge = 'end')
        - max(full_ns) FILTER (WHERE edge = 'begin') AS full_ns,
    FROM snapshot_pressure
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    GROUP BY trace_id, resource
  )
SELECT
  -- Recording.
  trace_id,
  -- cpu, io (disk reads by page faults included), memory (to become free), or irq.
  resource,
  -- Time between the two snapshots, ns; null if one of them lacks this. (exact)
  step_ns,
  -- Time in which at least one thread was stalled for it, ns. (no bounds)
  CASE WHEN some_ns >= 0 THEN some_ns END AS some_ns,
  -- The same as a share of the step, percent; null for steps shorter than 20 s, where the 2 s matter.
  -- (no bounds)
  CASE WHEN some_ns >= 0 AND step_ns >= 20_000_000_000 THEN 100.0 * some_ns / step_ns END
    AS some_pct,
  -- Time in which all threads that were not idle were stalled for it, ns; null if not reported.
  -- (no bounds)
  CASE WHEN full_ns >= 0 THEN full_ns END AS full_ns,
  -- The same as a share of the step, percent; null for steps shorter than 20 s. (no bounds)
  CASE WHEN full_ns >= 0 AND step_ns >= 20_000_000_000 THEN 100.0 * full_ns / step_ns END
    AS full_pct,
FROM edge
ORDER BY trace_id, resource;
