-- Which threads the frames waited for: time of each on the critical path.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
WITH
  chosen AS (
    SELECT trace_id, process, upid, frame, utid, dur_ns
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE dur_ns > 0
  ),
  spent AS (
    SELECT
      c.trace_id,
      any_value(c.process) AS process,
      c.upid,
      p.utid,
      count(DISTINCT p.frame) AS frames,
      sum(p.dur)::BIGINT AS path_ns,
      bool_or(c.utid = p.utid) AS presents,
    FROM frame_path AS p
    JOIN chosen AS c ON c.upid = p.upid AND c.frame = p.frame
    GROUP BY c.trace_id, c.upid, p.utid
  )
SELECT
  -- Recording.
  spent.trace_id,
  -- Name of the presenting process.
  spent.process,
  -- Process, unique in the database.
  spent.upid,
  -- Name of the thread.
  t.name AS thread,
  -- Thread id.
  t.tid,
  -- Thread, unique in the database.
  spent.utid,
  -- Frames whose critical path includes it.
  spent.frames,
  -- Its time on the critical path, ns. (no bounds)
  spent.path_ns,
  -- path_ns as a share of all path time of these frames, percent. (no bounds)
  100.0 * spent.path_ns
    / nullif(sum(spent.path_ns) OVER (PARTITION BY spent.trace_id, spent.upid), 0) AS path_pct,
  -- True if it presents some of these frames itself.
  coalesce(spent.presents, false) AS presents,
FROM spent
JOIN thread AS t ON t.utid = spent.utid
ORDER BY spent.trace_id, spent.upid, spent.path_ns DESC, spent.utid;
