-- Frequency against active cores: mean frequency of the busy CPUs of each core type at each number
-- of cores with a busy CPU. If it falls with each further core, the cores share the turbo budget.
-- An interval between two frequency changes of a CPU counts with its busy time, at its mean number
-- of active cores, rounded.
-- No rows without: cpu_frequency.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
SELECT
  -- Recording.
  trace_id,
  -- Core type; null if unknown.
  core_type,
  -- Mean number of cores with a busy CPU, all types.
  round(active)::INTEGER AS active_cores,
  -- Intervals between two frequency changes.
  count(*) AS intervals,
  -- Busy time in them, ns. (no bounds)
  sum(busy_ns)::BIGINT AS busy_ns,
  -- Mean frequency over this time, kHz.
  sum(khz * busy_ns::DOUBLE) / sum(busy_ns) AS avg_khz,
FROM frequency_interval(p_trace_id, p_from_ns, p_to_ns)
WHERE busy_ns > 0
GROUP BY trace_id, core_type, round(active)
ORDER BY trace_id, core_type, active_cores;
