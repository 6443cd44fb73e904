-- The power plan's settings in the recording: parking, frequency and idle settings, as found.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Setting.
  key,
  -- Its value; null if it was queried and not found.
  value,
FROM machine_setting
WHERE (p_trace_id IS NULL OR trace_id = p_trace_id)
  AND regexp_matches(
    lower(key), 'park|power|plan|governor|boost|turbo|epp|perf_|pstate|freq|idle|hetero'
  )
ORDER BY trace_id, key, value;
