-- Interrupt and softirq work on each logical CPU, by kind and name, where recorded. It runs on top
-- of whatever the CPU was doing, so it is also part of the running time of threads.
-- No rows without: interrupt_slice.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns))
SELECT
  -- Recording.
  trace_id,
  -- Logical CPU.
  cpu,
  -- irq, softirq, dpc or isr.
  i.kind,
  -- Name of the softirq or of the handler; null if not recorded.
  name,
  -- How often it ran.
  count(*) AS count,
  -- Time in it, ns, without runs whose end is not recorded and without the parts of runs in which
  -- records were lost. (no bounds)
  sum(clipped_ns(ts, dur, start_ns, end_ns)) FILTER (WHERE dur IS NOT NULL)::BIGINT AS run_ns,
  -- run_ns as a share of the window, percent. (no bounds)
  100.0 * sum(clipped_ns(ts, dur, start_ns, end_ns)) FILTER (WHERE dur IS NOT NULL)
    / nullif(any_value(dur_ns), 0) AS run_pct,
  -- Longest run, not clipped to the window, ns. (no bounds)
  max(dur) AS longest_ns,
FROM interrupt_slice AS i
JOIN span USING (trace_id)
WHERE ts <= end_ns AND (dur IS NULL OR ts + dur >= start_ns)
GROUP BY trace_id, cpu, i.kind, name
ORDER BY trace_id, cpu, run_ns DESC NULLS LAST, i.kind, name;
