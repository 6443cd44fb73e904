-- Each part of ready time with what stood in the way, clipped to the window; the first that
-- applies of throttled, idle_exit, idle_available, parked_available, unknown, all_busy.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_min_idle_ns [100000]: shortest idle interval that counts.
SELECT
  -- Recording.
  r.trace_id,
  -- Thread, unique in the database.
  r.utid,
  -- Begin, ns.
  greatest(r.ts, start_ns)::BIGINT AS ts,
  -- Length, ns.
  (least(r.ts + r.dur, end_ns) - greatest(r.ts, start_ns))::BIGINT AS dur,
  -- Begin of the ready period it is a part of, ns.
  r.ready_ts,
  -- CPU the thread then entered; null: not seen.
  r.entered_cpu,
  -- What stood in the way.
  CASE
    WHEN r.throttled
      OR (
        r.cgroup_throttled
        AND NOT r.idle_exit
        AND greatest(coalesce(r.idle_ns, -1), coalesce(r.parked_ns, -1)) >= p_min_idle_ns
      )
      THEN 'throttled'
    WHEN r.idle_exit THEN 'idle_exit'
    WHEN r.idle_ns >= p_min_idle_ns THEN 'idle_available'
    WHEN r.parked_ns >= p_min_idle_ns THEN 'parked_available'
    WHEN r.unknown_available THEN 'unknown'
    ELSE 'all_busy'
  END AS obstacle,
  -- False: allowed CPUs are those the thread was seen on (lower bound).
  r.affinity_known,
FROM ready_slice AS r
JOIN analysis_span(p_trace_id, p_from_ns, p_to_ns) AS span ON span.trace_id = r.trace_id
WHERE r.ts < end_ns AND r.ts + r.dur > start_ns
ORDER BY r.trace_id, r.ts, r.utid;
