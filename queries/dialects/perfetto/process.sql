-- Perfetto's table process.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Process, unique in the database.
  upid,
  -- Process id.
  pid,
  -- Last recorded name.
  name,
  -- Start of its life, ns; null if it existed when the recording began. (time)
  start_ns AS start_ts,
  -- End of its life, ns; null if it outlived the recording. (time)
  end_ns AS end_ts,
FROM main.process
WHERE p_trace_id IS NULL OR trace_id = p_trace_id
ORDER BY trace_id, upid;
