-- The weight with which each thread shares the CPUs with others. On Linux it is that of the nice
-- level at which the thread ran and was ready longest (sched_prio_to_weight), or that of the policy
-- SCHED_IDLE (WEIGHT_IDLEPRIO) if it was read; elsewhere all weights are equal.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
WITH
  machine AS (
    SELECT place.trace_id, any_value(trace.source) AS source, count(DISTINCT cpu) AS cpus
    FROM topology(p_trace_id) AS place
    JOIN trace ON trace.trace_id = place.trace_id
    WHERE online IS NOT FALSE
    GROUP BY place.trace_id
  ),
  -- The priority at which each thread was runnable longest; the more urgent of two.
  level AS (
    SELECT trace_id, utid, max_by(priority, (ns, -priority)) AS priority
    FROM (
      SELECT trace_id, utid, priority, sum(dur + coalesce(ready_ns, 0)) AS ns
      FROM sched_slice
      WHERE NOT is_idle AND (p_trace_id IS NULL OR trace_id = p_trace_id)
      GROUP BY trace_id, utid, priority
    )
    GROUP BY trace_id, utid
  )
SELECT
  -- Recording.
  machine.trace_id,
  -- Thread, unique in the database.
  thread.utid,
  -- Its weight: 1024 for nice 0, and wherever threads do not share by weight; 0 for real-time and
  -- deadline threads of Linux, which run before all that share; 3 for SCHED_IDLE.
  CASE
    WHEN NOT is_tracepoint_source(machine.source) THEN 1024
    WHEN level.priority < 100 THEN 0
    WHEN known.policy = 'idle' THEN 3
    WHEN level.priority IS NULL THEN CASE WHEN known.policy IN ('fifo', 'rr', 'deadline') THEN 0
      ELSE 1024 END
    ELSE nice_weight(level.priority - 120)
  END AS weight,
  -- True: nothing shows whether it shares at all.
  is_tracepoint_source(machine.source) AND level.priority IS NULL
    AND coalesce(known.policy, '') NOT IN ('idle', 'fifo', 'rr', 'deadline')
    AND EXISTS (FROM level AS other WHERE other.trace_id = machine.trace_id
      AND other.priority IS NOT NULL) AS is_unclear,
  -- CPUs that are online.
  machine.cpus,
FROM thread
JOIN machine ON machine.trace_id = thread.trace_id
LEFT JOIN level ON level.utid = thread.utid
LEFT JOIN scheduling_policy(p_trace_id) AS known ON known.utid = thread.utid
WHERE NOT thread.is_idle
ORDER BY machine.trace_id, thread.utid;
