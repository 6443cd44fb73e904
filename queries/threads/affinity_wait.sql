-- Threads that were ready while their allowed CPUs were busy and a CPU outside their affinity was
-- idle: what a wider affinity could have saved, whatever the length of the slices. Only threads
-- whose affinity is known at that moment; threads that Linux binds to one CPU (kworker/0:1) are left out.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_min_idle_ns [100000]: shortest idle interval of the other CPU that counts.
WITH
  waited AS (
    SELECT trace_id, utid, ready_ns, outside_idle_ns
    FROM ready_obstacle(p_trace_id, p_from_ns, p_to_ns, NULL, p_min_idle_ns)
  ),
  mask AS (
    SELECT utid, arg_max(cpus, from_ns) AS cpus
    FROM affinity_spell(p_trace_id)
    WHERE is_known
    GROUP BY utid
  )
SELECT
  -- Recording.
  waited.trace_id,
  -- Thread, unique in the database.
  waited.utid,
  -- Its thread id.
  thread.tid,
  -- Its name.
  thread.name AS thread,
  -- Its process.
  process.name AS process,
  -- Logical CPUs it may use, by its last affinity.
  mask.cpus,
  -- Ready time in the window, ns. (no bounds)
  waited.ready_ns,
  -- Part of ready_ns in which no allowed CPU was idle and another online, unparked CPU was, ns.
  -- (no bounds)
  waited.outside_idle_ns,
FROM waited
JOIN thread ON thread.utid = waited.utid
JOIN trace ON trace.trace_id = waited.trace_id
LEFT JOIN process ON process.upid = thread.upid
LEFT JOIN mask ON mask.utid = waited.utid
WHERE waited.outside_idle_ns > 0
  AND mask.cpus IS DISTINCT FROM [kernel_bound_cpu(trace.source, thread.name)]
ORDER BY waited.trace_id, waited.outside_idle_ns DESC, waited.utid;
