-- The critical path of each frame, piece by piece from its start to its end: which thread the frame
-- waited for, and whose wakeup led to it.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
-- p_frame: only frames of this number; null for all.
WITH
  chosen AS (
    SELECT trace_id, process, upid, frame, dur_ns, stutter
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE dur_ns > 0 AND (p_frame IS NULL OR frame = p_frame)
  ),
  hop AS (
    SELECT
      p.trace_id,
      p.upid,
      p.frame,
      p.utid,
      p.ts,
      p.dur,
      lag(p.utid) OVER (PARTITION BY p.upid, p.frame ORDER BY p.ts, p.hop DESC) AS before_utid,
      row_number() OVER (PARTITION BY p.upid, p.frame ORDER BY p.ts, p.hop DESC) AS number,
    FROM frame_path AS p
    SEMI JOIN chosen ON chosen.upid = p.upid AND chosen.frame = p.frame
  )
SELECT
  -- Recording.
  hop.trace_id,
  -- Name of the presenting process.
  chosen.process,
  -- Process, unique in the database.
  hop.upid,
  -- Number of the frame in its process.
  hop.frame,
  -- Length of the frame, ns. (no bounds)
  chosen.dur_ns,
  -- True if the frame stuttered.
  chosen.stutter,
  -- Number of the piece, from 1 at the start of the frame.
  hop.number::INTEGER AS hop,
  -- Name of the thread that the frame waited for.
  thread.name AS thread,
  -- Its thread id.
  thread.tid,
  -- The thread, unique in the database.
  hop.utid,
  -- Start of the piece, ns. (time)
  hop.ts,
  -- Its length, ns. (no bounds)
  hop.dur,
  -- Name of the thread whose wakeup started the piece; null for the first.
  waker.name AS waker_thread,
  -- Its thread id; null for the first.
  waker.tid AS waker_tid,
FROM hop
JOIN chosen ON chosen.upid = hop.upid AND chosen.frame = hop.frame
JOIN thread ON thread.utid = hop.utid
LEFT JOIN thread AS waker ON waker.utid = hop.before_utid AND hop.before_utid <> hop.utid
ORDER BY hop.trace_id, chosen.process, hop.upid, hop.frame, hop.number;
