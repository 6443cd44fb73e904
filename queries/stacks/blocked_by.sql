-- What threads waited for: the stack of each wait, who ended it, and the stack with which that
-- thread did so. Whoever wakes a thread that waits for a lock held it.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only waiting threads of processes of this name, or in this group (group_thread); null
-- for all.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  span AS (
    SELECT span.*
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns) AS span
    SEMI JOIN stack USING (trace_id)
  ),
  woken AS (
    SELECT w.trace_id, w.utid, w.ts, w.waker_utid, w.stack_id, w.in_interrupt
    FROM wakeup AS w
    SEMI JOIN span ON span.trace_id = w.trace_id
    WHERE w.effective AND w.utid IS NOT NULL
  ),
  waited AS (
    SELECT
      *,
      start_ns + dur_ns AS end_ns,
      lead(start_ns) OVER (PARTITION BY utid ORDER BY start_ns) AS next_ns,
      lead(state) OVER (PARTITION BY utid ORDER BY start_ns) AS next_state,
      lead(dur_ns) OVER (PARTITION BY utid ORDER BY start_ns) AS next_dur_ns,
    FROM off_cpu_slice(p_trace_id, p_from_ns, p_to_ns, p_process)
  ),
  pair AS (
    SELECT
      waited.utid,
      own.folded,
      coalesce(own.user_frame, own.frame) AS frame,
      any_value(own.own_frame) AS own_frame,
      min(waited.stack_id) AS stack_id,
      woken.waker_utid,
      other.folded AS waker_folded,
      coalesce(other.user_frame, other.frame) AS waker_frame,
      any_value(other.own_frame) AS waker_own_frame,
      min(woken.stack_id) AS waker_stack_id,
      bool_and(woken.in_interrupt) AS from_interrupt,
      count(*) AS waits,
      sum(waited.dur_ns)::BIGINT AS wait_ns,
      max(waited.dur_ns) AS longest_wait_ns,
      coalesce(
        sum(CASE WHEN next_ns = waited.end_ns AND next_state = 'ready' THEN next_dur_ns END), 0
      )::BIGINT AS ready_ns,
    FROM waited
    LEFT JOIN woken ON woken.utid = waited.utid AND woken.ts = waited.end_ns
    LEFT JOIN stack_text(p_trace_id) AS own ON own.stack_id = waited.stack_id
    LEFT JOIN stack_text(p_trace_id) AS other ON other.stack_id = woken.stack_id
    WHERE waited.state = 'waiting'
    GROUP BY waited.utid, own.folded, coalesce(own.user_frame, own.frame), woken.waker_utid,
      other.folded, coalesce(other.user_frame, other.frame)
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Process of the waiting thread; null if not recorded.
  who.process,
  -- Name of the waiting thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The waiting thread, unique in the database.
  who.utid,
  -- One of its stacks with these functions; null if none was recorded.
  pair.stack_id,
  -- Function in which it waits: the innermost one outside the kernel, else in it; [no stack] if
  -- none was recorded.
  coalesce(pair.frame, '[no stack]') AS frame,
  -- The function of the program from which it waits there; null if it has no name.
  pair.own_frame,
  -- Name of the waker; null if no wakeup was recorded, or if an interrupt on an idle CPU woke it.
  CASE WHEN NOT waker.is_idle THEN waker.name END AS waker_thread,
  -- Thread id of the waker; null if no wakeup was recorded, or if an interrupt on an idle CPU woke
  -- it.
  CASE WHEN NOT waker.is_idle THEN waker.tid END AS waker_tid,
  -- The waker, unique in the database; null if no wakeup was recorded in the window.
  pair.waker_utid,
  -- One of the stacks of the waker with these functions; null if none was recorded.
  pair.waker_stack_id,
  -- Function in which the waker woke it: the innermost one outside the kernel, else in it;
  -- [no stack] if none was recorded.
  coalesce(pair.waker_frame, '[no stack]') AS waker_frame,
  -- The function of the waker's program from which it did so; null if it has no name.
  pair.waker_own_frame,
  -- The wakeups came from interrupts, such as timers: the waker only happened to run there. Null
  -- if not recorded.
  pair.from_interrupt,
  -- Number of waits in the window.
  pair.waits,
  -- Waiting time, ns. (at least)
  pair.wait_ns,
  -- Longest wait inside the window, ns. (at least)
  pair.longest_wait_ns,
  -- Ready time after these waits, ns. (at least)
  pair.ready_ns,
  -- All functions of the waiting thread from the outermost to the innermost, separated by
  -- semicolons; null if none was recorded.
  pair.folded,
  -- The same of the waker.
  pair.waker_folded,
FROM pair
JOIN who ON who.utid = pair.utid
LEFT JOIN thread AS waker ON waker.utid = pair.waker_utid
ORDER BY who.trace_id, pair.wait_ns DESC, who.utid, pair.stack_id, pair.waker_utid,
  pair.waker_stack_id;
