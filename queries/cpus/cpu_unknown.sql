-- How long the state of each logical CPU is unknown in the window, because records were lost or its
-- stream starts late or ends early. CPUs whose state is always known are left out.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
SELECT
  -- Recording.
  trace_id,
  -- Logical CPU.
  cpu,
  -- Time in which its state is unknown, ns. (bound)
  sum(clipped_ns(ts, dur, start_ns, end_ns))::BIGINT AS unknown_ns,
FROM cpu_state
JOIN analysis_span(p_trace_id, p_from_ns, p_to_ns) AS span USING (trace_id)
WHERE state = 'unknown' AND ts < end_ns AND ts + dur > start_ns
GROUP BY trace_id, cpu
ORDER BY trace_id, cpu;
