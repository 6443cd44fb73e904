-- Pairs of threads that are bound to logical CPUs of the same core and ran at the same time, and
-- how long another whole core, allowed to them or not, was idle meanwhile.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only pairs with a thread of a process of this name; null for all.
-- p_min_idle_ns [100000]: shortest idle period of a core that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, NULL)),
  place AS (
    SELECT trace_id, cpu, any_value(core) AS core FROM topology(p_trace_id) GROUP BY ALL
  ),
  -- Linux binds its own threads by design, not by choice.
  bound AS MATERIALIZED (
    SELECT one.utid, one.from_ns, one.to_ns, any_value(one.cpus) AS cpus
    FROM (
      SELECT spell.*, unnest(spell.cpus)::INTEGER AS cpu
      FROM affinity_spell(p_trace_id) AS spell
      JOIN who ON who.utid = spell.utid
      JOIN trace ON trace.trace_id = spell.trace_id
      WHERE spell.is_known
        AND NOT is_kernel_affinity(trace.source, who.thread, spell.cpus)
    ) AS one
    JOIN place ON place.trace_id = one.trace_id AND place.cpu = one.cpu
    GROUP BY one.utid, one.from_ns, one.to_ns
    HAVING count(DISTINCT place.core) = 1 AND count(place.core) = count(*)
  ),
  overlap_each AS (
    SELECT
      s.trace_id,
      s.core,
      least(s.utid, s.other_utid) AS utid,
      greatest(s.utid, s.other_utid) AS other_utid,
      greatest(s.ts, span.start_ns) AS from_ns,
      least(s.ts + s.dur, span.end_ns) AS to_ns,
    FROM sibling_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    WHERE s.ts < span.end_ns AND s.ts + s.dur > span.start_ns AND s.dur > 0
      AND s.utid <> s.other_utid
  ),
  -- Only the time in which both are bound.
  pair AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.core,
      s.utid,
      s.other_utid,
      greatest(s.from_ns, a.from_ns, b.from_ns) AS from_ns,
      least(s.to_ns, a.to_ns, b.to_ns) AS to_ns,
      a.cpus,
      b.cpus AS other_cpus,
    FROM overlap_each AS s
    JOIN bound AS a ON a.utid = s.utid AND a.from_ns < s.to_ns AND a.to_ns > s.from_ns
    JOIN bound AS b ON b.utid = s.other_utid AND b.from_ns < s.to_ns AND b.to_ns > s.from_ns
    WHERE greatest(s.from_ns, a.from_ns, b.from_ns) < least(s.to_ns, a.to_ns, b.to_ns)
  ),
  -- Their own core is busy, so any idle core is another one.
  idle AS (
    SELECT trace_id, ts, ts + dur AS end_ns
    FROM whole_idle_core(p_trace_id, p_min_idle_ns)
    SEMI JOIN pair USING (trace_id)
  ),
  stream AS (
    SELECT trace_id, unnest([ts, end_ns]) AS ts, unnest([1, -1]) AS step_by, 0 AS sign,
      NULL AS core, NULL AS utid, NULL AS other_utid,
    FROM idle
    UNION ALL
    SELECT trace_id, unnest([from_ns, to_ns]), 0, unnest([-1, 1]), core, utid, other_utid
    FROM pair
  ),
  level AS (
    SELECT
      *,
      row_number() OVER sofar AS place,
      CASE WHEN sum(step_by) OVER sofar > 0 THEN lead(ts) OVER sofar - ts ELSE 0 END AS idle_ns,
    FROM stream
    WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  idle_time AS (
    SELECT core, utid, other_utid, sum(sign * before_ns)::BIGINT AS idle_ns
    FROM (
      SELECT
        *,
        coalesce(
          sum(idle_ns) OVER (
            PARTITION BY trace_id ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ),
          0
        ) AS before_ns,
      FROM level
    )
    WHERE sign <> 0
    GROUP BY core, utid, other_utid
  ),
  spent AS (
    SELECT
      trace_id,
      core,
      utid,
      other_utid,
      sum(to_ns - from_ns)::BIGINT AS ns,
      arg_max(cpus, from_ns) AS cpus,
      arg_max(other_cpus, from_ns) AS other_cpus,
    FROM pair
    GROUP BY trace_id, core, utid, other_utid
  )
SELECT
  -- Recording.
  spent.trace_id,
  -- Core: the lowest logical CPU number of its siblings.
  spent.core,
  -- Process of the first thread; null if not recorded.
  a.process,
  -- Name of the first thread.
  a.thread,
  -- Its thread id.
  a.tid,
  -- The first thread, unique in the database.
  spent.utid,
  -- CPUs it is bound to; the last set if there were several.
  spent.cpus,
  -- Process of the second thread; null if not recorded.
  b.process AS other_process,
  -- Name of the second thread.
  b.thread AS other_thread,
  -- Its thread id.
  b.tid AS other_tid,
  -- The second thread, unique in the database.
  spent.other_utid,
  -- CPUs it is bound to; the last set if there were several.
  spent.other_cpus,
  -- Time in which both ran, ns. (at least)
  spent.ns AS together_ns,
  -- Part of together_ns during which another whole core was idle, ns. (at least)
  idle_time.idle_ns,
FROM spent
JOIN idle_time USING (core, utid, other_utid)
JOIN who AS a ON a.utid = spent.utid
JOIN who AS b ON b.utid = spent.other_utid
WHERE p_process IS NULL
  OR spent.utid IN (SELECT utid FROM thread_with_process(p_trace_id, p_process))
  OR spent.other_utid IN (SELECT utid FROM thread_with_process(p_trace_id, p_process))
ORDER BY spent.trace_id, idle_time.idle_ns DESC, together_ns DESC, spent.utid, spent.other_utid;
