-- What each logical CPU did in the window; the five parts add up to the recorded part of the
-- window.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
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
      clipped_ns(ts, dur, start_ns, end_ns) AS dur,
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
  -- Time running a thread other than the idle thread, ns. (at least; unknown_ns more at most)
  thread_ns,
  -- Time in interrupt work within the idle thread, where recorded, ns.
  -- (at least; unknown_ns more at most)
  interrupt_ns,
  -- Idle time, ns. (at least; unknown_ns more at most)
  idle_ns,
  -- Time in which its state is unknown, ns. (bound)
  unknown_ns,
  -- Offline time, ns. (at least; unknown_ns more at most)
  offline_ns,
  -- Busy time (thread or interrupt) as a share of the known online time, percent; null if none is
  -- known. (from busy_low_pct to busy_high_pct)
  100.0 * (thread_ns + interrupt_ns)
    / nullif(thread_ns + interrupt_ns + idle_ns, 0) AS busy_pct,
  -- busy_pct if the CPU was idle in all unknown time, percent. (bound)
  100.0 * (thread_ns + interrupt_ns)
    / nullif(thread_ns + interrupt_ns + idle_ns + unknown_ns, 0) AS busy_low_pct,
  -- busy_pct if the CPU was busy in all unknown time, percent. (bound)
  100.0 * (thread_ns + interrupt_ns + unknown_ns)
    / nullif(thread_ns + interrupt_ns + idle_ns + unknown_ns, 0) AS busy_high_pct,
FROM by_cpu
LEFT JOIN place USING (trace_id, cpu)
ORDER BY trace_id, cpu;
