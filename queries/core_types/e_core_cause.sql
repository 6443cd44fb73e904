-- Why each thread ran on E cores. Three parts add up to that time: its affinity contained no P core,
-- a whole P core that it may use was idle, or none was. Two facts are shown alongside: how long its
-- QoS class made the scheduler prefer E cores, and the power plan's policy for threads on hybrid
-- processors. A slice counts by the affinity and the class at its start.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_min_idle_ns [100000]: shortest idle period of a core that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  chosen AS (
    FROM core_choice(p_trace_id, p_from_ns, p_to_ns, p_process, p_min_idle_ns) WHERE e_ns > 0
  ),
  fast AS (
    SELECT trace_id, list(DISTINCT cpu) AS cpus
    FROM topology(p_trace_id)
    WHERE core_type IN ('P', 'U')
    GROUP BY trace_id
  ),
  slow AS (
    SELECT
      s.utid,
      s.ts,
      s.priority,
      clipped_ns(
        s.ts, s.dur, greatest(span.start_ns, place.from_ns), least(span.end_ns, place.to_ns)
      ) AS ns,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    JOIN topology(p_trace_id) AS place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND place.to_ns > s.ts AND place.from_ns < s.ts + s.dur
    SEMI JOIN chosen ON chosen.utid = s.utid
    WHERE NOT s.is_idle AND place.core_type IN ('E', 'LP-E') AND s.dur > 0
      AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
  ),
  excluded AS (
    SELECT a.utid, a.from_ns, a.is_known AND NOT list_has_any(a.cpus, fast.cpus) AS without_p
    FROM affinity_spell(p_trace_id) AS a
    JOIN fast ON fast.trace_id = a.trace_id
    SEMI JOIN chosen ON chosen.utid = a.utid
  ),
  masked AS (
    SELECT s.utid, sum(s.ns) FILTER (WHERE a.without_p) AS ns
    FROM slow AS s
    ASOF JOIN excluded AS a ON a.utid = s.utid AND a.from_ns <= s.ts
    GROUP BY s.utid
  ),
  class AS (
    SELECT utid, from_ns, qos_class, prefers_e
    FROM thread_qos(p_trace_id, -4000000000000000000, 4000000000000000000)
    SEMI JOIN chosen USING (utid)
  ),
  served AS (
    SELECT utid, sum(ns) FILTER (WHERE prefers_e) AS ns, arg_max(qos_class, (ns, prefers_e, qos_class)) AS qos_class
    FROM (
      SELECT s.utid, c.qos_class, c.prefers_e, sum(s.ns) AS ns
      FROM slow AS s
      ASOF JOIN class AS c ON c.utid = s.utid AND c.from_ns <= s.ts
      GROUP BY s.utid, c.qos_class, c.prefers_e
    )
    GROUP BY utid
  ),
  urgent AS (
    SELECT utid, arg_max(priority, (ns, priority)) AS priority
    FROM (SELECT utid, priority, sum(ns) AS ns FROM slow GROUP BY utid, priority)
    GROUP BY utid
  ),
  -- Microsoft's values of the setting "Heterogeneous thread scheduling policy".
  policy AS (
    SELECT
      trace_id,
      string_agg(
        lower(regexp_extract(key, '\.(ac|dc)$', 1)) || ': ' || coalesce(
          [
            'all processors', 'performant processors', 'prefer performant processors',
            'efficient processors', 'prefer efficient processors', 'automatic'
          ][TRY_CAST(value AS INTEGER) + 1],
          value
        ),
        ', ' ORDER BY key
      ) AS policy,
    FROM machine_setting
    WHERE regexp_matches(key, '\.SCHEDPOLICY\.(ac|dc)$') AND value IS NOT NULL
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  c.trace_id,
  -- Name of the process; null if not recorded.
  c.process,
  -- Name of the thread.
  c.thread,
  -- Thread id.
  c.tid,
  -- Thread, unique in the database.
  c.utid,
  -- Running time on E and LP-E cores, ns. (at least; unknown_ns more at most)
  c.e_ns,
  -- Part of e_ns in which its known affinity contained no P core, ns. (no bounds)
  coalesce(masked.ns, 0)::BIGINT AS mask_ns,
  -- Part of e_ns during which a whole P core that it may use was idle, ns. (at least)
  c.e_beside_idle_p_ns AS p_idle_ns,
  -- Rest of e_ns: its affinity allows P cores, and none of them was idle as a whole, ns. (no bounds)
  greatest(0, c.e_ns - coalesce(masked.ns, 0) - c.e_beside_idle_p_ns)::BIGINT AS no_p_idle_ns,
  -- Time on E cores in a QoS class that prefers them, whatever else applied, ns; null if no classes
  -- are recorded. (no bounds)
  CASE WHEN served.utid IS NOT NULL THEN coalesce(served.ns, 0)::BIGINT END AS low_qos_ns,
  -- QoS class in which it ran longest on E cores (thread_qos); null if not recorded.
  served.qos_class,
  -- Priority at which it ran longest on E cores; null if not recorded.
  urgent.priority,
  -- The power plan's policy for threads, on mains (ac) and battery (dc); null if not recorded.
  policy.policy,
  -- Unknown time in which it may have run, and time on cores of unknown type, ns. (bound)
  c.unknown_ns,
FROM chosen AS c
LEFT JOIN masked ON masked.utid = c.utid
LEFT JOIN served ON served.utid = c.utid
LEFT JOIN urgent ON urgent.utid = c.utid
LEFT JOIN policy ON policy.trace_id = c.trace_id
ORDER BY c.trace_id, c.e_ns DESC, c.utid;
