-- In which code each thread waited, and in which it was ready and did not run: time off the CPU by
-- the stack with which the thread left it. Time without a recorded stack is a row of its own.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  spent AS (
    SELECT
      utid,
      named.folded,
      coalesce(named.user_frame, named.frame) AS frame,
      any_value(named.own_frame) AS own_frame,
      min(stack_id) AS stack_id,
      count(*) FILTER (WHERE state = 'waiting') AS waits,
      coalesce(sum(dur_ns) FILTER (WHERE state = 'waiting'), 0)::BIGINT AS wait_ns,
      max(dur_ns) FILTER (WHERE state = 'waiting') AS longest_wait_ns,
      coalesce(sum(dur_ns) FILTER (WHERE state = 'ready'), 0)::BIGINT AS ready_ns,
      max(dur_ns) FILTER (WHERE state = 'ready') AS longest_ready_ns,
    FROM off_cpu_slice(p_trace_id, p_from_ns, p_to_ns, p_process)
    LEFT JOIN stack_text(p_trace_id) AS named USING (stack_id)
    GROUP BY utid, named.folded, coalesce(named.user_frame, named.frame)
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  who.utid,
  -- One of the stacks with these functions with which it left the CPU; null if none was recorded.
  spent.stack_id,
  -- Innermost function outside the kernel, else in it; [no stack] if none was recorded.
  coalesce(spent.frame, '[no stack]') AS frame,
  -- The function of the program from which it waits there; null if it has no name.
  spent.own_frame,
  -- Number of waits in the window.
  spent.waits,
  -- Waiting time, ns; without recorded wakeups it contains ready time. (no bounds)
  spent.wait_ns,
  -- Longest wait inside the window, ns; null without any. The same applies. (no bounds)
  spent.longest_wait_ns,
  -- Ready time, ns. (at least)
  spent.ready_ns,
  -- Longest ready time inside the window, ns; null without any. (at least)
  spent.longest_ready_ns,
  -- All functions from the outermost to the innermost, separated by semicolons; null if none was
  -- recorded.
  spent.folded,
FROM spent
JOIN who ON who.utid = spent.utid
ORDER BY who.trace_id, spent.wait_ns + spent.ready_ns DESC, who.utid, spent.stack_id;
