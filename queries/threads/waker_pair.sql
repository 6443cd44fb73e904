-- Which thread wakes which: each pair of waker and woken thread, over switch-ins in the window that
-- a wakeup led to. A wakeup from an idle CPU comes from an interrupt.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only where the woken thread is of this process; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  pair AS (
    SELECT
      s.waker_utid,
      s.utid,
      count(*) AS wakings,
      sum(s.ready_ns)::BIGINT AS ready_ns,
      max(s.ready_ns) AS ready_max_ns,
      sum(s.wait_ns)::BIGINT AS wait_ns,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    WHERE s.waker_utid IS NOT NULL AND s.ts BETWEEN start_ns AND end_ns
    GROUP BY s.waker_utid, s.utid
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Process of the waker; null if not recorded, or if an interrupt woke the thread.
  waker_process.name AS waker_process,
  -- Name of the waker; null if an interrupt on an idle CPU woke the thread.
  CASE WHEN NOT waker.is_idle THEN waker.name END AS waker_thread,
  -- Thread id of the waker; null if an interrupt on an idle CPU woke the thread.
  CASE WHEN NOT waker.is_idle THEN waker.tid END AS waker_tid,
  -- The waker, unique in the database; the idle thread of the CPU if an interrupt there woke the
  -- thread.
  pair.waker_utid,
  -- True if an interrupt on an idle CPU woke the thread.
  waker.is_idle AS from_idle,
  -- Process of the woken thread; null if not recorded.
  who.process,
  -- Name of the woken thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The woken thread, unique in the database.
  who.utid,
  -- Wakeups that led to a switch-in in the window. (at least)
  wakings,
  -- Ready time between these wakeups and the switch-ins, ns. (at least)
  ready_ns,
  -- Longest of these, ns. (at least)
  ready_max_ns,
  -- Waiting time before these wakeups, ns; null if none is known. (at least)
  wait_ns,
FROM pair
JOIN who ON who.utid = pair.utid
LEFT JOIN thread AS waker ON waker.utid = pair.waker_utid
LEFT JOIN process AS waker_process ON waker_process.upid = waker.upid AND NOT waker.is_idle
ORDER BY who.trace_id, wakings DESC, pair.waker_utid, who.utid;
