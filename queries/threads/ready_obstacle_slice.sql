-- Each part of a thread's ready time and why it was not running, clipped to the window. The first
-- cause that applies wins: throttled, idle_exit, idle_available, parked_available, unknown,
-- all_busy. The cause is also unknown if lost records leave open which one applies, or if a CPU is
-- idle that a thread of unknown affinity never ran on.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_min_idle_ns [100000]: shortest idle interval that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  part AS (
    SELECT
      r.trace_id,
      r.utid,
      greatest(r.ts, start_ns) AS ts,
      clipped_ns(r.ts, r.dur, start_ns, end_ns) AS dur,
      r.ready_ts,
      r.entered_cpu,
      r.obstacle,
      r.affinity_known,
      r.in_doubt,
      r.may_be_idle,
      r.outside_idle_ns,
    FROM ready_slice AS r
    JOIN span ON span.trace_id = r.trace_id
    WHERE p_min_idle_ns = 100000 AND r.ts < end_ns AND r.ts + r.dur > start_ns
    UNION ALL
    FROM judged_ready_slice(p_trace_id, p_from_ns, p_to_ns, p_min_idle_ns)
    WHERE p_min_idle_ns <> 100000
  )
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- Start, ns. (time)
  ts::BIGINT AS ts,
  -- Length, ns. (no bounds)
  dur::BIGINT AS dur,
  -- Start of the ready period it is a part of, ns. (time)
  ready_ts,
  -- CPU the thread then switched in on; null: not seen.
  entered_cpu,
  -- Why it was not running.
  obstacle,
  -- False: the thread's affinity is unknown and taken as the CPUs it ran on (lower bound).
  affinity_known,
  -- True if lost records leave open whether it switched in soon, or an idle interval was longer.
  in_doubt,
  -- For parked_available: true if it may have been idle_available, because the state or the parking
  -- of another allowed CPU is unknown, or because the thread's affinity is unknown and another CPU
  -- is idle.
  may_be_idle,
  -- Length of the longest idle interval, at this moment, of an online unparked CPU outside its
  -- affinity (if that is unknown, outside the CPUs it ran on), ns; null if none was idle.
  -- (no bounds)
  outside_idle_ns,
FROM part
ORDER BY trace_id, ts, utid;
