-- In which code threads wake others: wakeups in the window by the stack of the waker.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only woken threads of processes of this name, or in this group (group_thread); null
-- for all.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  span AS (
    SELECT span.*
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns) AS span
    SEMI JOIN stack USING (trace_id)
  ),
  woken AS (
    SELECT
      w.trace_id,
      w.utid,
      w.waker_utid,
      named.folded,
      coalesce(named.user_frame, named.frame) AS frame,
      min(w.stack_id) AS stack_id,
      count(*) AS wakings,
    FROM wakeup AS w
    JOIN span ON span.trace_id = w.trace_id
    LEFT JOIN stack_text(p_trace_id) AS named ON named.stack_id = w.stack_id
    SEMI JOIN who ON who.utid = w.utid
    WHERE w.effective AND w.ts BETWEEN span.start_ns AND span.end_ns
    GROUP BY w.trace_id, w.utid, w.waker_utid, named.folded,
      coalesce(named.user_frame, named.frame)
  )
SELECT
  -- Recording.
  woken.trace_id,
  -- Process of the waker; null if not recorded, or if an interrupt woke the thread.
  waker_process.name AS process,
  -- Name of the waker; null if not recorded, or if an interrupt on an idle CPU woke the thread.
  CASE WHEN NOT waker.is_idle THEN waker.name END AS thread,
  -- The waker, unique in the database.
  woken.waker_utid AS utid,
  -- One of the stacks of the waker with these functions; null if none was recorded.
  woken.stack_id,
  -- Innermost function outside the kernel, else in it; [no stack] if none was recorded.
  coalesce(woken.frame, '[no stack]') AS frame,
  -- Name of the woken thread.
  who.thread AS woken_thread,
  -- The woken thread, unique in the database.
  woken.utid AS woken_utid,
  -- Wakeups that made the thread ready.
  woken.wakings,
  -- All functions from the outermost to the innermost, separated by semicolons; null if none was
  -- recorded.
  woken.folded,
FROM woken
JOIN who ON who.utid = woken.utid
LEFT JOIN thread AS waker ON waker.utid = woken.waker_utid
LEFT JOIN process AS waker_process ON waker_process.upid = waker.upid AND NOT waker.is_idle
ORDER BY woken.trace_id, woken.wakings DESC, woken.waker_utid, woken.stack_id, woken.utid;
