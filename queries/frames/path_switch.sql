-- Each time the thread that a frame waited for lost its CPU in the middle of its work, and where it
-- resumed: switch-outs on the critical path at which the thread was still runnable.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
WITH
  chosen AS (
    SELECT trace_id, process, upid, frame, stutter
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
  ),
  path AS MATERIALIZED (
    SELECT
      p.trace_id,
      p.upid,
      p.frame,
      p.utid,
      p.ts,
      p.ts + p.dur AS end_ns,
      c.process,
      c.stutter,
      row_number() OVER () AS id,
    FROM frame_path AS p
    JOIN chosen AS c ON c.upid = p.upid AND c.frame = p.frame
    WHERE p.dur > 0
  ),
  slice AS (
    SELECT
      s.trace_id,
      s.utid,
      s.cpu,
      s.ts + s.dur AS out_ns,
      s.end_reason,
      lead(s.ts) OVER later AS in_ns,
      lead(s.cpu) OVER later AS in_cpu,
    FROM sched_slice AS s
    SEMI JOIN path ON path.utid = s.utid
    WINDOW later AS (PARTITION BY s.utid ORDER BY s.ts, s.dur, s.cpu)
  ),
  cut AS (
    SELECT *
    FROM slice
    WHERE end_reason IN (
      'preempted', 'quantum_end', 'quantum_end_or_yield', 'yield', 'runnable_other',
      'throttled_or_moved'
    )
  ),
  -- The path piece that started last before each switch-out, for each presenting process, because a
  -- thread may be on the paths of several processes at once.
  during AS (
    SELECT *
    FROM (
      SELECT *, arg_max(id, ts) OVER sofar AS path_id
      FROM (
        SELECT on_path.upid, cut.utid, out_ns AS ts, 0 AS turn, NULL AS id, trace_id, cpu,
          end_reason, in_ns, in_cpu,
        FROM cut
        JOIN (SELECT DISTINCT upid, utid FROM path) AS on_path ON on_path.utid = cut.utid
        UNION ALL
        SELECT upid, utid, ts, 1, id, NULL, NULL, NULL, NULL, NULL FROM path
      )
      WINDOW sofar AS (PARTITION BY upid, utid ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
    )
    WHERE turn = 0 AND path_id IS NOT NULL
  ),
  place AS (FROM topology(p_trace_id))
SELECT
  -- Recording.
  path.trace_id,
  -- Name of the presenting process.
  path.process,
  -- Process, unique in the database.
  path.upid,
  -- Number of the frame in its process.
  path.frame,
  -- True if the frame stuttered.
  path.stutter,
  -- Thread, unique in the database.
  cut.utid,
  -- Switch-out, ns. (time)
  cut.ts AS out_ns,
  -- Why it switched out.
  cut.end_reason,
  -- Logical CPU it left.
  cut.cpu AS from_cpu,
  -- Core type it left; null if unknown.
  left_of.core_type AS from_type,
  -- Logical CPU it resumed on; null if not seen.
  cut.in_cpu AS to_cpu,
  -- Core type it resumed on; null if unknown or not seen.
  back_on.core_type AS to_type,
  -- From the switch-out to the next switch-in, ns; null if not seen. (at most)
  (cut.in_ns - cut.ts)::BIGINT AS off_ns,
FROM during AS cut
JOIN path ON path.id = cut.path_id
LEFT JOIN place AS left_of
  ON left_of.trace_id = cut.trace_id AND left_of.cpu = cut.cpu
  AND cut.ts >= left_of.from_ns AND cut.ts < left_of.to_ns
LEFT JOIN place AS back_on
  ON back_on.trace_id = cut.trace_id AND back_on.cpu = cut.in_cpu
  AND cut.in_ns >= back_on.from_ns AND cut.in_ns < back_on.to_ns
WHERE cut.ts < path.end_ns
ORDER BY path.trace_id, cut.ts, cut.utid, path.upid;
