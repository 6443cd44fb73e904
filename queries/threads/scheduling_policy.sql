-- The policy with which Linux scheduled each thread for the longest time, of those that `collect`
-- read: a thread keeps a policy until the next one is read.
-- Few rows, which other questions read.
-- No rows without: thread_policy.
-- p_trace_id: only this recording; null for all.
WITH
  spell AS (
    SELECT
      p.trace_id,
      p.utid,
      p.policy,
      -- The last reading may be later than the last record.
      greatest(0, coalesce(lead(p.ts) OVER thread, trace.duration_ns) - p.ts) AS dur,
    FROM thread_policy AS p
    JOIN trace ON trace.trace_id = p.trace_id
    WHERE p.utid IS NOT NULL AND (p_trace_id IS NULL OR p.trace_id = p_trace_id)
    WINDOW thread AS (PARTITION BY p.utid ORDER BY p.ts)
  )
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- Its policy: other, batch, idle, fifo, rr, deadline or ext, as chrt names them. One that is
  -- idle runs only while no other thread of its cgroup or autogroup wants the CPU.
  max_by(policy, (ns, policy)) AS policy,
FROM (SELECT trace_id, utid, policy, sum(dur) AS ns FROM spell GROUP BY ALL)
GROUP BY trace_id, utid
ORDER BY trace_id, utid;
