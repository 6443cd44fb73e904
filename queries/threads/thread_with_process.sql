-- Every thread except the idle threads, with its process.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_process: only threads of processes of this name, or of a group such as service:nginx
-- (group_thread); null for all.
SELECT
  -- Recording.
  t.trace_id,
  -- Thread, unique in the database.
  t.utid,
  -- Thread id as recorded.
  t.tid,
  -- Last recorded name of the thread.
  t.name AS thread,
  -- Process, unique in the database; null if not recorded.
  t.upid,
  -- Process id as recorded; null if not recorded.
  p.pid,
  -- Last recorded name of the process; null if not recorded.
  p.name AS process,
FROM thread AS t
LEFT JOIN process AS p ON p.upid = t.upid
WHERE NOT t.is_idle
  AND (p_trace_id IS NULL OR t.trace_id = p_trace_id)
  AND (
    p_process IS NULL
    OR p.name = p_process
    OR t.utid IN (SELECT utid FROM group_thread(p_trace_id, p_process))
  )
ORDER BY t.trace_id, t.utid;
