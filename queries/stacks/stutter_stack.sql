-- What differs between stutters and other frames: in which code the threads of the process wait and
-- are ready, on average in a stutter and in another frame, by the stack with which they left their
-- CPU. A thread that waits for its next task waits longer in a longer frame, too.
-- No rows without: stack, frame.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name, or with a thread in this group; null for all.
-- p_stutter [1.5]: how many times the usual length makes a stutter.
WITH
  chosen AS (
    SELECT trace_id, upid, start_ns, start_ns + dur_ns AS end_ns, stutter
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process, p_stutter)
    WHERE dur_ns > 0 AND upid IS NOT NULL AND stutter IS NOT NULL
  ),
  counted AS (
    SELECT
      trace_id,
      upid,
      count(*) FILTER (WHERE stutter) AS stutters,
      count(*) FILTER (WHERE NOT stutter) AS others,
    FROM chosen
    GROUP BY trace_id, upid
  ),
  piece AS (
    SELECT
      off.utid,
      off.stack_id,
      off.state,
      chosen.upid,
      chosen.stutter,
      clipped_ns(off.start_ns, off.dur_ns, chosen.start_ns, chosen.end_ns) AS ns,
    FROM off_cpu_slice(p_trace_id, p_from_ns, p_to_ns) AS off
    JOIN thread ON thread.utid = off.utid
    JOIN chosen
      ON chosen.upid = thread.upid
      AND off.start_ns < chosen.end_ns AND off.start_ns + off.dur_ns > chosen.start_ns
  ),
  spent AS (
    SELECT
      piece.upid,
      piece.utid,
      named.folded,
      coalesce(named.user_frame, named.frame) AS frame,
      any_value(named.own_frame) AS own_frame,
      min(piece.stack_id) AS stack_id,
      coalesce(sum(ns) FILTER (WHERE stutter AND state = 'waiting'), 0) AS stutter_wait,
      coalesce(sum(ns) FILTER (WHERE NOT stutter AND state = 'waiting'), 0) AS other_wait,
      coalesce(sum(ns) FILTER (WHERE stutter AND state = 'ready'), 0) AS stutter_ready,
      coalesce(sum(ns) FILTER (WHERE NOT stutter AND state = 'ready'), 0) AS other_ready,
    FROM piece
    LEFT JOIN stack_text(p_trace_id) AS named ON named.stack_id = piece.stack_id
    GROUP BY piece.upid, piece.utid, named.folded, coalesce(named.user_frame, named.frame)
  ),
  mean AS (
    SELECT
      spent.*,
      counted.trace_id,
      counted.stutters,
      counted.others,
      (stutter_wait / counted.stutters)::BIGINT AS stutter_wait_ns,
      (other_wait / counted.others)::BIGINT AS other_wait_ns,
      (stutter_ready / counted.stutters)::BIGINT AS stutter_ready_ns,
      (other_ready / counted.others)::BIGINT AS other_ready_ns,
    FROM spent
    JOIN counted USING (upid)
    WHERE counted.stutters > 0 AND counted.others > 0
  )
SELECT
  -- Recording.
  mean.trace_id,
  -- Process of the frames; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  mean.utid,
  -- One of the stacks with these functions; null if none was recorded.
  mean.stack_id,
  -- Innermost function outside the kernel, else in it; [no stack] if none was recorded.
  coalesce(mean.frame, '[no stack]') AS frame,
  -- The function of the program from which it waits there; null if it has no name.
  mean.own_frame,
  -- Number of stutters.
  mean.stutters,
  -- Number of other frames.
  mean.others,
  -- Mean waiting time in a stutter, ns. (no bounds)
  mean.stutter_wait_ns,
  -- Mean waiting time in another frame, ns. (no bounds)
  mean.other_wait_ns,
  -- The difference: how much longer it waits there in a stutter, ns. (no bounds)
  mean.stutter_wait_ns - mean.other_wait_ns AS more_wait_ns,
  -- Mean ready time in a stutter, ns. (no bounds)
  mean.stutter_ready_ns,
  -- Mean ready time in another frame, ns. (no bounds)
  mean.other_ready_ns,
  -- The difference, ns. (no bounds)
  mean.stutter_ready_ns - mean.other_ready_ns AS more_ready_ns,
  -- All functions from the outermost to the innermost, separated by semicolons; null if none was
  -- recorded.
  mean.folded,
FROM mean
JOIN thread_with_process(p_trace_id) AS who ON who.utid = mean.utid
ORDER BY mean.trace_id,
  mean.stutter_wait_ns - mean.other_wait_ns + mean.stutter_ready_ns - mean.other_ready_ns DESC,
  mean.utid, mean.stack_id;
