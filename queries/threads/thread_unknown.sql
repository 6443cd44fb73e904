-- How long the state of each thread is unknown in the window, because records were lost or the
-- recording does not contain its first state. Without recorded wakeups it is also unknown how much
-- of a thread's waiting time it was ready. On Linux a thread keeps running for a while after its
-- exit record, until its last switch-out. If a thread's own CPU clock shows more running time than
-- any record (thread_clock_check), it may have run for that much longer. Threads whose state is
-- always known and whose clock agrees are left out.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  unclear AS (
    SELECT trace_id, sum(clipped_ns(ts, dur, start_ns, end_ns)) AS ns
    FROM concurrency_slice
    JOIN span USING (trace_id)
    WHERE unknown > 0 AND ts < end_ns AND ts + dur > start_ns
    GROUP BY trace_id
  ),
  -- The first wakeup of a thread alone says nothing about its waits.
  woken AS (SELECT DISTINCT trace_id FROM wakeup WHERE ends_wait(kind)),
  spent AS (
    SELECT
      trace_id,
      utid,
      sum(clipped_ns(ts, dur, start_ns, end_ns))::BIGINT AS unknown_ns,
      sum(clipped_ns(ts, dur, start_ns, end_ns)) FILTER (WHERE state = 'unknown') AS lost_ns,
    FROM thread_state
    JOIN span USING (trace_id)
    WHERE (
        state = 'unknown'
        OR (state IN ('waiting', 'new') AND trace_id NOT IN (SELECT trace_id FROM woken))
      )
      AND ts < end_ns AND ts + dur > start_ns
    GROUP BY trace_id, utid
  ),
  -- Only threads without a slice that ends after their end.
  leaving AS (
    SELECT
      t.trace_id,
      t.utid,
      span.end_ns - greatest(t.end_ns, span.start_ns) AS ns,
    FROM thread AS t
    JOIN span USING (trace_id)
    JOIN trace USING (trace_id)
    WHERE NOT is_windows_source(trace.source)
      AND t.end_ns < span.end_ns
      AND t.utid NOT IN (
        SELECT s.utid
        FROM sched_slice AS s
        JOIN thread AS ended USING (utid)
        WHERE s.ts + s.dur >= ended.end_ns
      )
  ),
  lost AS (
    SELECT
      coalesce(spent.trace_id, leaving.trace_id) AS trace_id,
      coalesce(spent.utid, leaving.utid) AS utid,
      coalesce(spent.unknown_ns, 0) + coalesce(leaving.ns, 0) AS unknown_ns,
      coalesce(spent.lost_ns, 0) + coalesce(leaving.ns, 0) AS lost_ns,
    FROM spent
    FULL JOIN leaving USING (trace_id, utid)
  ),
  charged AS (
    SELECT trace_id, utid, ceil(run_ns * clock_gap_pct / 100)::BIGINT AS ns
    FROM thread_clock_check(p_trace_id)
    WHERE clock_gap_pct > 0
  )
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- Time in which its state is unknown, or in which it may have been ready instead of waiting, ns.
  -- (bound)
  coalesce(lost.unknown_ns, 0) AS unknown_ns,
  -- Time in which its state is unknown, up to the time in which the state of some CPU is unknown
  -- (it can only have run then), plus what its own CPU clock shows beyond the records, ns. (bound)
  (least(coalesce(lost.lost_ns, 0), coalesce(unclear.ns, 0)) + coalesce(charged.ns, 0))::BIGINT
    AS run_unknown_ns,
FROM lost
FULL JOIN charged USING (trace_id, utid)
LEFT JOIN unclear USING (trace_id)
ORDER BY trace_id, utid;
