-- What each thread waited for, as far as the recording says it: page faults, I/O, locks, other
-- threads, timers. Windows records a wait reason, which is the same for I/O and for events. Linux
-- records whether a wait can be interrupted (S) or not (D); together with what ended it, an interrupt
-- or a thread, this separates I/O from locks in the kernel. Where page faults and disk requests are
-- recorded (`collect --waits`), they are causes of their own; where they are not (recorded_kind), I/O
-- (Windows: object) includes both.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  -- Not stored, because there are millions of them.
  waited AS NOT MATERIALIZED (
    SELECT
      s.utid,
      s.ts AS start_ns,
      s.ts + s.dur AS end_ns,
      s.reason,
      s.left_censored OR s.right_censored AS is_cut,
      s.dur AS whole_ns,
      clipped_ns(s.ts, s.dur, span.start_ns, span.end_ns) AS dur,
    FROM thread_state AS s
    JOIN span ON span.trace_id = s.trace_id
    SEMI JOIN who ON who.utid = s.utid
    WHERE s.state = 'waiting' AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
  ),
  -- Looked up and not joined, because two records may wake a thread at one time.
  woken AS NOT MATERIALIZED (
    SELECT utid, ts, waker_utid, in_interrupt
    FROM wakeup
    WHERE effective
      AND (p_trace_id IS NULL OR trace_id = p_trace_id)
      AND (p_from_ns IS NULL OR ts > p_from_ns)
  ),
  known (reason, cause) AS (
    VALUES
      ('PageIn', 'page_fault'), ('WrPageIn', 'page_fault'), ('WrPhysicalFault', 'page_fault'),
      ('FreePage', 'memory'), ('WrFreePage', 'memory'), ('PoolAllocation', 'memory'),
      ('WrPoolAllocation', 'memory'), ('WrVirtualMemory', 'memory'), ('WrPageOut', 'memory'),
      ('WrIoRing', 'io'),
      ('WrResource', 'kernel_lock'), ('WrPushLock', 'kernel_lock'), ('WrMutex', 'kernel_lock'),
      ('WrFastMutex', 'kernel_lock'), ('WrGuardedMutex', 'kernel_lock'),
      ('WrRundown', 'kernel_lock'),
      ('WrKeyedEvent', 'user_lock'), ('WrAlertByThreadId', 'user_lock'),
      ('WrQueue', 'queue'),
      ('WrLpcReceive', 'message'), ('WrLpcReply', 'message'),
      ('DelayExecution', 'sleep'), ('WrDelayExecution', 'sleep'),
      ('UserRequest', 'object'), ('WrUserRequest', 'object'), ('Executive', 'object'),
      ('WrExecutive', 'object'),
      ('Suspended', 'stopped'), ('WrSuspended', 'stopped'), ('T', 'stopped'), ('t', 'stopped')
  ),
  fault AS (
    SELECT utid, ts
    FROM wait_event
    WHERE kind = 'page_fault' AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  hard_fault AS (
    SELECT utid, ts, ts - dur AS start_ns
    FROM wait_event
    WHERE kind = 'hard_fault' AND dur IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  done AS (
    SELECT utid, done_ns AS ts
    FROM disk_request(p_trace_id)
    WHERE utid IS NOT NULL AND done_ns IS NOT NULL
  ),
  -- The reasons for which the records of page faults and of the disk tell more.
  may_be_disk (reason) AS (SELECT 'D' UNION ALL SELECT reason FROM known WHERE cause = 'object'),
  -- Threads with any such record: the waits of the others need no search for one.
  on_record AS MATERIALIZED (
    SELECT utid
    FROM (SELECT utid FROM fault UNION SELECT utid FROM hard_fault UNION SELECT utid FROM done)
    WHERE utid IS NOT NULL
  ),
  -- Kept, so that the searches below are for these waits only.
  on_disk AS MATERIALIZED (
    FROM waited WHERE reason IN (FROM may_be_disk) AND utid IN (FROM on_record)
  ),
  -- A page fault that needs the disk leaves the CPU 10 to 100 us later. The disk's interrupt makes
  -- the thread ready within microseconds; of several requests, the last one ends the wait. Windows
  -- records from when to when a thread was in a hard fault.
  explained AS (
    SELECT
      w.utid,
      w.end_ns,
      w.reason,
      w.is_cut,
      w.whole_ns,
      w.dur,
      w.start_ns - fault.ts < 200_000 AS is_fault,
      hard_fault.start_ns <= w.start_ns AS is_hard_fault,
      done.ts > w.start_ns AND w.end_ns - done.ts < 1_000_000 AS is_disk,
    FROM on_disk AS w
    ASOF LEFT JOIN hard_fault ON hard_fault.utid = w.utid AND hard_fault.ts >= w.end_ns
    ASOF LEFT JOIN fault ON fault.utid = w.utid AND fault.ts <= w.start_ns
    ASOF LEFT JOIN done ON done.utid = w.utid AND done.ts <= w.end_ns
    UNION ALL
    SELECT utid, end_ns, reason, is_cut, whole_ns, dur, NULL, NULL, NULL
    FROM waited
    WHERE reason = 'S' OR (reason = 'D' AND utid NOT IN (FROM on_record))
  ),
  ended AS (
    SELECT
      explained.utid,
      explained.reason,
      explained.is_fault,
      explained.is_hard_fault,
      explained.is_disk,
      CASE
        -- The idle thread as the waker is an interrupt too.
        WHEN (explained.utid, explained.end_ns) IN (
          SELECT utid, ts
          FROM woken
          WHERE in_interrupt OR waker_utid IN (SELECT utid FROM thread WHERE is_idle)
        )
          THEN true
        WHEN (explained.utid, explained.end_ns) IN (
          SELECT utid, ts FROM woken WHERE in_interrupt IS NOT NULL
        )
          THEN false
      END AS by_interrupt,
      explained.dur,
      CASE WHEN NOT explained.is_cut THEN explained.whole_ns END AS whole_ns,
    FROM explained
    UNION ALL
    -- What ended a wait says nothing about the cause of these.
    SELECT utid, reason, NULL, NULL, NULL, NULL, dur, CASE WHEN NOT is_cut THEN whole_ns END
    FROM waited
    WHERE reason IS NULL
      OR (
        reason NOT IN ('D', 'S')
        AND (reason NOT IN (FROM may_be_disk) OR utid NOT IN (FROM on_record))
      )
  ),
  -- Few rows, to which the rest is joined.
  alike AS (
    SELECT
      utid,
      reason,
      is_fault,
      is_hard_fault,
      is_disk,
      by_interrupt,
      count(*) AS waits,
      sum(dur) AS dur,
      max(whole_ns) AS whole_ns,
    FROM ended
    GROUP BY ALL
  ),
  caused AS (
    SELECT
      alike.utid,
      CASE
        WHEN known.cause = 'object' AND is_hard_fault THEN 'page_fault'
        WHEN known.cause = 'object' AND is_disk AND by_interrupt THEN 'disk'
        WHEN known.cause IS NOT NULL THEN known.cause
        WHEN alike.reason = 'D' AND is_fault AND (is_disk OR by_interrupt) THEN 'page_fault'
        WHEN alike.reason = 'D' AND is_disk THEN 'disk'
        WHEN alike.reason = 'D' AND by_interrupt THEN 'io'
        WHEN alike.reason = 'D' AND NOT by_interrupt THEN 'kernel_lock'
        WHEN alike.reason = 'S' AND by_interrupt THEN 'interrupt'
        WHEN alike.reason = 'S' AND NOT by_interrupt THEN 'thread'
        ELSE 'unknown'
      END AS cause,
      alike.waits,
      alike.dur,
      alike.whole_ns,
    FROM alike
    LEFT JOIN known ON known.reason = alike.reason
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name of the process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  who.utid,
  -- page_fault (from disk), disk (one of the thread's own requests), memory (to become free), io (a
  -- disk or another device, by an uninterruptible wait that an interrupt ends), kernel_lock, user_lock, queue (work), message,
  -- object (an event or I/O; the reason does not say which), sleep, stopped, interrupt (a timer, the
  -- network or a device), thread (another thread), or unknown.
  c.cause,
  -- Waits that overlap the window.
  sum(c.waits)::BIGINT AS waits,
  -- Waiting time in the window, ns. (no bounds)
  sum(c.dur)::BIGINT AS wait_ns,
  -- The same as a share of the thread's waiting time, percent. (no bounds)
  100.0 * sum(c.dur) / nullif(sum(sum(c.dur)) OVER (PARTITION BY who.utid), 0) AS of_wait_pct,
  -- Longest wait whose start and end are recorded, ns. (no bounds)
  max(c.whole_ns) AS wait_max_ns,
FROM caused AS c
JOIN who ON who.utid = c.utid
GROUP BY who.trace_id, who.process, who.thread, who.tid, who.utid, c.cause
ORDER BY who.trace_id, who.utid, wait_ns DESC, c.cause;
