-- The window that the shares of each recording refer to: the requested one, else the common
-- measured interval of the workers, else the step, else the whole recording.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the start in analysis_window.
-- p_to_ns: end of the window; null for the end in analysis_window.
SELECT
  -- Recording.
  trace_id,
  -- Start of the window. (time)
  coalesce(p_from_ns, start_ns)::BIGINT AS start_ns,
  -- End of the window. (time)
  coalesce(p_to_ns, end_ns)::BIGINT AS end_ns,
  -- Length of the window. (exact)
  (coalesce(p_to_ns, end_ns) - coalesce(p_from_ns, start_ns))::BIGINT AS dur_ns,
  -- Where the window comes from: workers, step, trace or asked.
  CASE WHEN p_from_ns IS NULL AND p_to_ns IS NULL THEN kind ELSE 'asked' END AS kind,
FROM analysis_window
WHERE p_trace_id IS NULL OR trace_id = p_trace_id
ORDER BY trace_id;
