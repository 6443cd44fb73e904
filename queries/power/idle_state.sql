-- Time in each idle state of each logical CPU, if the recording contains idle states. Numbers are
-- as recorded: 0 is the shallowest.
-- No rows without: cpu_idle.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  spell AS (
    SELECT
      trace_id,
      cpu,
      state,
      dur,
      span.dur_ns AS window_ns,
      -- clipped_ns() reads a NULL length as one without end.
      CASE WHEN dur IS NOT NULL THEN clipped_ns(ts, dur, start_ns, end_ns) END AS inside_ns,
    FROM cpu_idle
    JOIN span USING (trace_id)
    WHERE ts <= end_ns AND (dur IS NULL OR ts + dur >= start_ns)
  )
SELECT
  -- Recording.
  trace_id,
  -- Logical CPU.
  cpu,
  -- Idle state, the number as recorded.
  state,
  -- Times it was entered, including an entry before the window that lasts into it.
  count(*) AS entries,
  -- Time in it, ns; entries whose end is not recorded are left out. (no bounds)
  sum(inside_ns)::BIGINT AS idle_ns,
  -- idle_ns as a share of the window, percent. (no bounds)
  100.0 * sum(inside_ns) / nullif(any_value(window_ns), 0) AS idle_pct,
  -- Median length, not clipped to the window, ns. (no bounds)
  quantile_disc(dur, 0.5) AS dur_p50_ns,
  -- Longest time in it, not clipped to the window, ns. (no bounds)
  max(dur) AS dur_max_ns,
FROM spell
GROUP BY trace_id, cpu, state
ORDER BY trace_id, cpu, state;
