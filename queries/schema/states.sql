-- States of threads and CPUs. What `sched_slice` contains is not stored again.

CREATE VIEW thread_state (
  trace_id,                        -- Recording.
  utid,                            -- Thread; idle threads have no rows.
  ts,                              -- Start.
  dur,                             -- Length.
  state,                           -- running, ready, waiting, new or unknown.
  cpu,                             -- Where it runs; NULL while it does not. wakeup.target_cpu: where a wakeup sent it.
  reason,                          -- Wait reason or Linux state of a waiting thread.
  waker_utid,                      -- Waker, if a wakeup started this ready state.
  left_censored,                   -- The start was not seen.
  right_censored                   -- The end was not seen.
) AS
SELECT
  trace_id, utid, ts, dur, 'running', cpu, NULL::VARCHAR, NULL::BIGINT, left_censored,
  right_censored
FROM sched_slice
WHERE NOT is_idle
UNION ALL
SELECT trace_id, utid, ts - ready_ns, ready_ns, 'ready', NULL, NULL, waker_utid, false, false
FROM sched_slice
WHERE NOT is_idle AND ready_ns > 0
UNION ALL
SELECT trace_id, utid, ts, dur, state, NULL, reason, waker_utid, left_censored, right_censored
FROM thread_state_other;

CREATE VIEW cpu_state (
  trace_id,                        -- Recording.
  cpu,                             -- Logical CPU.
  ts,                              -- Start.
  dur,                             -- Length.
  state,                           -- thread, interrupt, idle, unknown or offline.
  utid                             -- Thread; NULL unless the state is thread.
) AS
SELECT trace_id, cpu, ts, dur, 'thread', utid
FROM sched_slice
WHERE NOT is_idle AND dur > 0
UNION ALL
SELECT trace_id, cpu, ts, dur, state, NULL
FROM cpu_state_other;
