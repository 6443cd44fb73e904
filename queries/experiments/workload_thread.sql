-- Threads of the workload of each step: its workers, and the other threads of their process. How
-- long they wait follows from the plan of the step; step_disturbance shows what other programs did
-- to them.
-- No rows without: run_worker.
-- p_trace_id: only this step; null for all.
WITH
  worker AS (
    SELECT DISTINCT w.trace_id, w.utid, t.upid
    FROM run_worker AS w
    JOIN thread AS t ON t.utid = w.utid
    WHERE p_trace_id IS NULL OR w.trace_id = p_trace_id
  ),
  member AS (
    SELECT trace_id, utid FROM worker
    UNION
    SELECT worker.trace_id, t.utid
    FROM worker
    JOIN thread AS t ON t.upid = worker.upid
    WHERE NOT t.is_idle
  )
SELECT
  -- Recording of the step.
  member.trace_id,
  -- Thread, unique in the database.
  member.utid,
  -- Whether it is a worker; the other threads only start and stop the workers.
  worker.utid IS NOT NULL AS is_worker,
  -- True if the step has more workers than CPUs they may use, so they wait for each other by
  -- design.
  coalesce(run.oversubscribed, FALSE) AS is_oversubscribed,
FROM member
LEFT JOIN worker ON worker.utid = member.utid
LEFT JOIN run ON run.trace_id = member.trace_id
ORDER BY member.trace_id, member.utid;
