-- Threads of the command that a step ran, including all processes that it started. Children are
-- found by which thread first woke a new thread; without wakeups, they are the processes that
-- started in the step.
-- No rows without: machine_setting.
-- p_trace_id: only this step; null for all.
WITH RECURSIVE
  root AS (
    SELECT t.trace_id, t.utid
    FROM machine_setting AS s
    JOIN process AS p ON p.trace_id = s.trace_id AND p.pid = try_cast(s.value AS BIGINT)
    JOIN thread AS t ON t.upid = p.upid
    WHERE s.key = 'command_pid' AND (p_trace_id IS NULL OR s.trace_id = p_trace_id)
  ),
  born AS (
    SELECT w.trace_id, w.waker_utid AS parent, child.utid
    FROM wakeup AS w
    JOIN thread AS first ON first.utid = w.utid
    -- All threads of its process; a thread without a process is the only one.
    JOIN thread AS child
      ON coalesce(child.upid, -1 - child.utid) = coalesce(first.upid, -1 - first.utid)
    WHERE w.kind = 'wakeup_new' AND w.waker_utid IS NOT NULL
  ),
  member AS (
    SELECT trace_id, utid FROM root
    UNION
    SELECT born.trace_id, born.utid FROM born JOIN member ON member.utid = born.parent
  ),
  -- Without wakeups: the threads that started in the step.
  begun AS (
    SELECT t.trace_id, t.utid
    FROM thread AS t
    WHERE t.trace_id IN (SELECT trace_id FROM root)
      AND t.trace_id NOT IN (SELECT trace_id FROM wakeup WHERE kind = 'wakeup_new')
      AND t.start_ns IS NOT NULL AND NOT t.is_idle
  ),
  every AS (
    FROM member
    UNION
    FROM begun
  )
SELECT
  -- Recording of the step.
  trace_id,
  -- Thread, unique in the database.
  utid,
FROM every
ORDER BY trace_id, utid;
