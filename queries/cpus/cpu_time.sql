-- What each logical CPU did in the window; the five parts tile it where the recording reaches.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  place AS (
    SELECT trace_id, cpu, arg_max(core, from_ns) AS core, arg_max(core_type, from_ns) AS core_type
    FROM topology(p_trace_id)
    GROUP BY trace_id, cpu
  ),
  spent AS (
    SELECT
      trace_id,
      cpu,
      state,
      least(ts + dur, end_ns) - greatest(ts, start_ns) AS dur,
    FROM cpu_state
    JOIN span USING (trace_id)
    WHERE ts <= end_ns AND ts + dur >= start_ns
  ),
  by_cpu AS (
    SELECT
      trace_id,
      cpu,
      coalesce(sum(dur) FILTER (WHERE state = 'thread'), 0)::BIGINT AS thread_ns,
      coalesce(sum(dur) FILTER (WHERE state = 'interrupt'), 0)::BIGINT AS interrupt_ns,
      coalesce(sum(dur) FILTER (WHERE state = 'idle'), 0)::BIGINT AS idle_ns,
      coalesce(sum(dur) FILTER (WHERE state = 'unknown'), 0)::BIGINT AS unknown_ns,
      coalesce(sum(dur) FILTER (WHERE state = 'offline'), 0)::BIGINT AS offline_ns,
    FROM spent
    GROUP BY trace_id, cpu
  )
SELECT
  -- Recording.
  trace_id,
  -- Logical CPU.
  cpu,
  -- Core: the lowest logical CPU number of its siblings; null if unknown.
  core,
  -- Core type; null if unknown.
  core_type,
  -- A thread that is not the idle thread ran, ns. (at least; unknown_ns more at most)
  thread_ns,
  -- Interrupt work in the idle thread, where recorded, ns. (at least; unknown_ns more at most)
  interrupt_ns,
  -- Idle, ns. (at least; unknown_ns more at most)
  idle_ns,
  -- The recording does not tell, ns. (bound)
  unknown_ns,
  -- Offline, ns. (at least; unknown_ns more at most)
  offline_ns,
  -- Busy (thread or interrupt) as a share of the known time online, percent; null if none is known.
  -- (from busy_low_pct to busy_high_pct)
  100.0 * (thread_ns + interrupt_ns)
    / nullif(thread_ns + interrupt_ns + idle_ns, 0) AS busy_pct,
  -- Busy share of the time online if the CPU was idle in all unknown time, percent. (bound)
  100.0 * (thread_ns + interrupt_ns)
    / nullif(thread_ns + interrupt_ns + idle_ns + unknown_ns, 0) AS busy_low_pct,
  -- Busy share of the time online if the CPU was busy in all unknown time, percent. (bound)
  100.0 * (thread_ns + interrupt_ns + unknown_ns)
    / nullif(thread_ns + interrupt_ns + idle_ns + unknown_ns, 0) AS busy_high_pct,
FROM by_cpu
LEFT JOIN place USING (trace_id, cpu)
ORDER BY trace_id, cpu;
