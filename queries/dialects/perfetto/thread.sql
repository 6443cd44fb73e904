-- Perfetto's table thread.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- Thread id.
  tid,
  -- Last recorded name.
  name,
  -- Process, unique in the database; null if not recorded.
  t.upid,
  -- Start of its life, ns; null if it existed when the recording began. (time)
  t.start_ns AS start_ts,
  -- End of its life, ns; null if it outlived the recording. (time)
  t.end_ns AS end_ts,
  -- True for the idle thread of a CPU.
  is_idle,
  -- True if its id is that of its process; null if not recorded.
  t.tid = p.pid AS is_main_thread,
FROM main.thread AS t
LEFT JOIN (SELECT upid, pid FROM main.process) AS p ON p.upid = t.upid
WHERE p_trace_id IS NULL OR trace_id = p_trace_id
ORDER BY trace_id, utid;
