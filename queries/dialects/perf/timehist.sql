-- The rows of `perf sched timehist` (perf 6.1), including its quirks: only scheduler events are
-- used, each switch is one row, and times are cut to microseconds. Run time counts from the last
-- switch recorded on the CPU, so after a missed switch idle time is added to the thread. Wait time
-- includes the delay. The delay is 0 after a preemption. For correct run times, query sched_slice.
-- p_trace_id: only this recording; null for all.
WITH
  switched AS (
    SELECT
      c.trace_id,
      c.ts,
      c.cpu,
      c.seq,
      c.prev_state,
      c.prev_utid,
      prev.is_idle,
      -- A thread that is already released when it switches out (it exited, or was preempted after
      -- its exit) has no id in perf, which treats all such threads as one.
      CASE
        WHEN c.prev_state & 16 <> 0 THEN -1
        WHEN prev.tid <> owner.pid AND c.ts > prev.end_ns THEN -1
        ELSE c.prev_utid
      END AS who,
      lag(c.ts) OVER (PARTITION BY c.trace_id, c.cpu ORDER BY c.ts, c.seq) AS tprev,
    FROM context_switch AS c
    LEFT JOIN thread AS prev ON prev.utid = c.prev_utid
    LEFT JOIN process AS owner ON owner.upid = prev.upid
    WHERE c.source = 'switch' AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  ),
  chosen AS (
    SELECT trace_id, bool_or(kind = 'waking') AS has_waking
    FROM wakeup
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    GROUP BY trace_id
  ),
  -- Wakeups and switch-outs of each thread in one stream. perf uses the first wakeup since the last
  -- switch-out, whether the thread was waiting or not.
  event AS (
    SELECT trace_id, who, ts, cpu, seq, TRUE AS is_switch FROM switched
    UNION ALL
    SELECT w.trace_id, w.utid, w.ts, w.cpu, w.seq, FALSE
    FROM wakeup AS w
    JOIN chosen USING (trace_id)
    WHERE w.utid IS NOT NULL AND (w.kind <> 'wakeup' OR NOT chosen.has_waking)
  ),
  numbered AS (
    SELECT
      *,
      -- With FILTER, count(*) over a running window takes quadratic time.
      count(CASE WHEN is_switch THEN 1 END) OVER (
        PARTITION BY trace_id, who ORDER BY ts, cpu, seq
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS life,
    FROM event
  ),
  slice AS (
    SELECT
      trace_id,
      who,
      life,
      min(ts) FILTER (WHERE NOT is_switch) AS ready_to_run,
      min(ts) FILTER (WHERE is_switch) AS left_ts,
      min(cpu) FILTER (WHERE is_switch) AS left_cpu,
      min(seq) FILTER (WHERE is_switch) AS left_seq,
    FROM numbered
    GROUP BY trace_id, who, life
  ),
  linked AS (
    SELECT
      *,
      lag(left_ts) OVER (PARTITION BY trace_id, who ORDER BY life) AS last_time,
    FROM slice
  ),
  name_at AS (
    SELECT trace_id, utid, coalesce(ts, -9223372036854775807) AS ts, name
    FROM thread_name
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  row_of AS (
    SELECT
      switched.*,
      linked.ready_to_run,
      linked.last_time,
      t.tid,
      p.pid,
      coalesce(name_at.name, t.name) AS comm,
    FROM switched
    LEFT JOIN linked
      ON linked.trace_id = switched.trace_id AND linked.left_cpu = switched.cpu
      AND linked.left_seq = switched.seq
    LEFT JOIN thread AS t ON t.utid = switched.prev_utid
    LEFT JOIN process AS p ON p.upid = t.upid
    ASOF LEFT JOIN name_at
      ON name_at.trace_id = switched.trace_id AND name_at.utid = switched.prev_utid
      AND switched.ts >= name_at.ts
  ),
  -- That one thread shows the process of the first released thread that was not its process's main
  -- thread.
  released_of AS (
    SELECT trace_id, min(ts) AS first_ts, arg_min(pid, ts) AS released_pid
    FROM row_of
    WHERE who = -1 AND tid <> pid
    GROUP BY trace_id
  ),
  shown AS (
    SELECT
      row_of.*,
      CASE WHEN ts >= first_ts THEN released_pid ELSE -1 END AS released_pid,
    FROM row_of
    LEFT JOIN released_of USING (trace_id)
  )
SELECT
  -- Recording.
  trace_id,
  -- Time of the switch on the recording's clock, s. (time)
  (trunc((trace.start_clock + ts) / 1000) / 1000000)::DECIMAL(18, 6) AS time,
  -- Logical CPU.
  cpu,
  -- Name and ids as perf prints them: <idle>, name[tid], name[tid/pid].
  CASE
    WHEN is_idle THEN '<idle>'
    WHEN who = -1 AND released_pid = -1 THEN ':-1[-1]'
    WHEN who = -1 THEN ':-1[-1/' || released_pid || ']'
    WHEN tid = pid THEN comm || '[' || tid || ']'
    ELSE comm || '[' || tid || '/' || pid || ']'
  END AS "task name",
  -- Thread id; 0 for the idle thread, -1 for a thread already released when it switches out.
  CASE WHEN is_idle THEN 0 WHEN who = -1 THEN -1 ELSE tid END AS tid,
  -- Process id; 0 for the idle thread; for released threads the process of the first one, else -1.
  CASE WHEN is_idle THEN 0 WHEN who = -1 THEN released_pid ELSE pid END AS pid,
  -- From the thread's previous switch-out to the last switch on this CPU, msec. (no bounds)
  (CASE
    WHEN tprev IS NULL OR last_time IS NULL OR last_time > tprev THEN 0
    ELSE (tprev - last_time) // 1000
  END / 1000)::DECIMAL(18, 3) AS wait_time,
  -- From the first wakeup since that switch-out to the last switch on this CPU, msec. (no bounds)
  (CASE
    WHEN tprev IS NULL OR ready_to_run IS NULL OR ready_to_run > tprev THEN 0
    ELSE (tprev - ready_to_run) // 1000
  END / 1000)::DECIMAL(18, 3) AS sch_delay,
  -- From the last switch on this CPU, msec. (no bounds)
  (CASE WHEN tprev IS NULL THEN 0 ELSE (ts - tprev) // 1000 END / 1000)::DECIMAL(18, 3) AS run_time,
FROM shown
JOIN trace USING (trace_id)
ORDER BY trace_id, ts, cpu, seq;
