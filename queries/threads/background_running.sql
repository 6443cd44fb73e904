-- Running time of each thread on each logical CPU, and how much of it while higher-priority work
-- that may use this CPU was ready or, if this is a P core, ran on an E core. Running and ready time
-- count at the priority and with the affinity of each moment. Ready time that no slice follows is
-- left out (a lower bound), and so are threads that may be throttled, and threads while they are
-- bound to a single CPU. On Linux a
-- lower number is the higher priority, and only numbers below 100 (real-time and deadline) are
-- strict: from 100 on threads share by weight, and none outranks another, except that all outrank
-- threads of SCHED_IDLE (scheduling_policy).
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only running threads of processes of this name; any ready thread counts. Null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  throttled AS MATERIALIZED (
    SELECT DISTINCT utid, ready_ts
    FROM ready_slice
    WHERE (throttled OR cgroup_throttled) AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  place AS (FROM topology(p_trace_id)),
  background AS (FROM scheduling_policy(p_trace_id) WHERE policy = 'idle'),
  -- Read again by each step: rows of all slices would have to be spilled to disk.
  slice AS NOT MATERIALIZED (
    SELECT
      s.trace_id,
      s.utid,
      s.cpu,
      s.ts,
      s.ts + s.dur AS end_ns,
      s.ts - s.ready_ns AS ready_ns,
      s.priority,
      coalesce(place.core_type IN ('P', 'U'), false) AS on_p,
      coalesce(place.core_type IN ('E', 'LP-E'), false) AS on_e,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    LEFT JOIN place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND s.ts >= place.from_ns AND s.ts < place.to_ns
    WHERE NOT s.is_idle AND s.priority IS NOT NULL
      AND s.ts - coalesce(s.ready_ns, 0) < span.end_ns AND s.ts + s.dur > span.start_ns
  ),
  waited AS NOT MATERIALIZED (
    SELECT trace_id, utid, ts, ready_ns, priority
    FROM slice
    -- A join could choose to keep all slices in memory, of which it expects few.
    WHERE ready_ns < ts AND (utid, ready_ns) NOT IN (FROM throttled)
  ),
  spell AS MATERIALIZED (
    SELECT
      *,
      dense_rank() OVER (ORDER BY trace_id, cpus) AS class,
      row_number() OVER (PARTITION BY utid ORDER BY from_ns) AS number,
    FROM affinity_spell(p_trace_id)
    SEMI JOIN span USING (trace_id)
  ),
  -- Only these threads need their events in order: the others have one priority a slice and one set
  -- of CPUs.
  changing AS MATERIALIZED (
    SELECT utid
    FROM priority_change
    WHERE kind = 'dynamic' AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION
    SELECT utid FROM spell WHERE number > 1
  ),
  -- Events of each of them in order; at equal times an end comes first, a switch-in last. A slice of
  -- length zero ends a ready period and starts nothing.
  moment AS (
    SELECT trace_id, utid, end_ns AS ts, 0 AS turn, 'off' AS state, NULL AS cpu, NULL AS on_p,
      NULL AS on_e, NULL AS class, NULL AS priority_after, NULL AS priority_before,
    FROM slice
    SEMI JOIN changing USING (utid)
    WHERE end_ns > ts
    UNION ALL
    SELECT trace_id, utid, from_ns, 1, NULL, NULL, NULL, NULL, class, NULL, NULL
    FROM spell
    SEMI JOIN changing USING (utid)
    UNION ALL
    SELECT trace_id, utid, ready_ns, 2, 'ready', NULL, NULL, NULL, NULL, NULL, NULL
    FROM waited
    SEMI JOIN changing USING (utid)
    UNION ALL
    SELECT trace_id, utid, ts, 3, NULL, NULL, NULL, NULL, NULL, new_priority, old_priority
    FROM priority_change
    WHERE kind = 'dynamic' AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION ALL
    SELECT trace_id, utid, ts, CASE WHEN end_ns > ts THEN 4 ELSE 1 END,
      CASE WHEN end_ns > ts THEN 'running' ELSE 'off' END, cpu, on_p, on_e, NULL, priority,
      priority,
    FROM slice
    SEMI JOIN changing USING (utid)
  ),
  -- Running time has the last recorded priority, ready time the one before the next recorded
  -- change.
  changed AS MATERIALIZED (
    SELECT
      trace_id,
      utid,
      ts,
      end_ns,
      state,
      cpu,
      on_p,
      on_e,
      spells,
      CASE WHEN state = 'running' THEN priority_after ELSE priority_before END AS priority,
    FROM (
      SELECT
        trace_id,
        utid,
        ts,
        lead(ts) OVER sofar AS end_ns,
        last_value(state IGNORE NULLS) OVER sofar AS state,
        last_value(cpu IGNORE NULLS) OVER sofar AS cpu,
        last_value(on_p IGNORE NULLS) OVER sofar AS on_p,
        last_value(on_e IGNORE NULLS) OVER sofar AS on_e,
        count(class) OVER sofar AS spells,
        last_value(priority_after IGNORE NULLS) OVER sofar AS priority_after,
        first_value(priority_before IGNORE NULLS) OVER (
          PARTITION BY utid ORDER BY ts, turn ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS priority_before,
      FROM moment
      WINDOW sofar AS (PARTITION BY utid ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
    )
    WHERE state IN ('running', 'ready') AND ts < end_ns
  ),
  period AS NOT MATERIALIZED (
    FROM changed
    UNION ALL
    SELECT trace_id, utid, ts, end_ns, 'running', cpu, on_p, on_e, 1, priority
    FROM slice
    ANTI JOIN changing USING (utid)
    WHERE ts < end_ns
    UNION ALL
    SELECT trace_id, utid, ready_ns, ts, 'ready', NULL, NULL, NULL, 1, priority
    FROM waited
    ANTI JOIN changing USING (utid)
  ),
  -- Running time of the other threads in the window; NULL if only ready time is in it.
  unchanged AS MATERIALIZED (
    SELECT
      slice.trace_id,
      slice.utid,
      slice.cpu,
      slice.priority,
      bool_or(slice.on_p) FILTER (WHERE slice.ts < least(slice.end_ns, span.end_ns)) AS on_p,
      sum(overlap_ns(slice.ts, slice.end_ns, span.start_ns, span.end_ns))
        FILTER (WHERE slice.ts < least(slice.end_ns, span.end_ns)) AS run_ns,
    FROM slice
    ANTI JOIN changing ON changing.utid = slice.utid
    JOIN span ON span.trace_id = slice.trace_id
    WHERE coalesce(slice.ready_ns, slice.ts) < slice.end_ns
    GROUP BY slice.trace_id, slice.utid, slice.cpu, slice.priority
  ),
  used AS (
    SELECT DISTINCT trace_id, utid, priority FROM unchanged
    UNION ALL
    SELECT DISTINCT trace_id, utid, priority FROM changed
  ),
  urgent AS MATERIALIZED (
    SELECT
      used.*,
      -- Linux nice levels share by weight: none of them outranks another.
      CASE
        WHEN is_windows_source(trace.source) THEN used.priority
        WHEN used.priority >= 100 AND background.utid IS NOT NULL THEN -101
        ELSE -least(100, used.priority)
      END AS urgency,
    FROM used
    JOIN trace ON trace.trace_id = used.trace_id
    LEFT JOIN background ON background.utid = used.utid
  ),
  -- The 60 most urgent levels separately; all others as one.
  level AS (
    SELECT *, min(place) OVER (PARTITION BY trace_id) AS lowest
    FROM (
      SELECT
        trace_id,
        urgency,
        greatest(
          0,
          60 - row_number() OVER (PARTITION BY trace_id ORDER BY urgency DESC)
        )::INTEGER AS place,
      FROM (SELECT DISTINCT trace_id, urgency FROM urgent)
    )
  ),
  set_of AS (SELECT DISTINCT trace_id, class, cpus FROM spell WHERE len(cpus) > 1),
  -- CPUs that belong to the same affinities form one group.
  grouped AS (
    SELECT *, dense_rank() OVER (ORDER BY trace_id, classes) AS place_group
    FROM (
      SELECT trace_id, cpu, list_sort(list(DISTINCT class)) AS classes
      FROM (SELECT DISTINCT trace_id, class, unnest(cpus) AS cpu FROM set_of)
      GROUP BY trace_id, cpu
    )
  ),
  group_class AS (
    SELECT DISTINCT trace_id, place_group, unnest(classes) AS class FROM grouped
  ),
  -- Few periods outrank anything: nothing ranks below the lowest level.
  ranked AS MATERIALIZED (
    SELECT
      period.*,
      high.place,
      CASE period.state WHEN 'ready' THEN 'ready' ELSE 'on_e' END AS kind,
    FROM period
    JOIN (
      SELECT urgent.utid, urgent.priority, level.place
      FROM urgent
      JOIN level ON level.trace_id = urgent.trace_id AND level.urgency = urgent.urgency
      WHERE level.place > level.lowest
    ) AS high
      ON high.utid = period.utid AND high.priority IS NOT DISTINCT FROM period.priority
    WHERE period.state = 'ready' OR period.on_e
  ),
  wanted AS (
    SELECT ranked.trace_id, spell.class, ranked.kind, ranked.ts, ranked.end_ns, ranked.place
    FROM ranked
    -- A set may apply to millions of rows: searching backwards from each row would scale
    -- quadratically.
    JOIN spell ON spell.utid = ranked.utid AND spell.number = ranked.spells
    SEMI JOIN set_of ON set_of.class = spell.class
  ),
  -- Times in which any of them wants a CPU.
  wanted_time AS MATERIALIZED (
    SELECT trace_id, kind, min(ts) AS from_ns, max(end_ns) AS to_ns
    FROM (
      SELECT
        * EXCLUDE (begins),
        -- With FILTER, count(*) over a running window takes quadratic time.
        count_if(begins) OVER (
          PARTITION BY trace_id, kind ORDER BY ts, end_ns, place ROWS UNBOUNDED PRECEDING
        ) AS island,
      FROM (
        SELECT
          *,
          ts > coalesce(
            max(end_ns) OVER (
              PARTITION BY trace_id, kind ORDER BY ts, end_ns, place
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            -9223372036854775807
          ) AS begins,
        FROM wanted
      )
    )
    GROUP BY trace_id, kind, island
  ),
  edge AS (
    SELECT w.trace_id, g.place_group, w.kind, w.place, w.ts, sum(w.step_by) AS step_by
    FROM (
      SELECT trace_id, class, kind, place, ts, 1 AS step_by FROM wanted
      UNION ALL
      SELECT trace_id, class, kind, place, end_ns, -1 FROM wanted
    ) AS w
    JOIN group_class AS g ON g.trace_id = w.trace_id AND g.class = w.class
    GROUP BY w.trace_id, g.place_group, w.kind, w.place, w.ts
  ),
  -- For each urgency at which something runs: whether anything more urgent wants the CPU, at each
  -- edge.
  below AS (
    SELECT edge.trace_id, edge.place_group, edge.kind, low.place, edge.ts,
      sum(edge.step_by) AS step_by,
    FROM edge
    JOIN (SELECT DISTINCT trace_id, place FROM level) AS low
      ON low.trace_id = edge.trace_id AND low.place < edge.place
    GROUP BY ALL
  ),
  -- When the condition starts (1) and stops (-1) holding.
  turn AS (
    SELECT
      trace_id,
      place_group,
      kind,
      place,
      ts,
      (more_urgent > 0)::INTEGER - (more_urgent > step_by)::INTEGER AS turn_by,
    FROM (
      SELECT
        *,
        sum(step_by) OVER (PARTITION BY trace_id, place_group, kind, place ORDER BY ts)
          AS more_urgent,
      FROM below
    )
    WHERE turn_by <> 0
  ),
  -- Running time, of which only that which overlaps one of these times needs a comparison.
  ran AS (
    SELECT
      period.trace_id,
      period.utid,
      period.cpu,
      period.priority,
      urgent.urgency,
      kind.kind,
      greatest(period.ts, span.start_ns) AS from_ns,
      least(period.end_ns, span.end_ns) AS to_ns,
    FROM period
    JOIN urgent
      ON urgent.utid = period.utid AND urgent.priority IS NOT DISTINCT FROM period.priority
    JOIN span ON span.trace_id = period.trace_id
    JOIN (SELECT DISTINCT trace_id, kind FROM wanted_time) AS kind
      ON kind.trace_id = period.trace_id
    WHERE (p_process IS NULL OR period.utid IN (SELECT utid FROM who))
      AND period.state = 'running' AND period.end_ns > span.start_ns AND period.ts < span.end_ns
      AND (kind.kind = 'ready' OR period.on_p)
  ),
  -- Of the times that begin before a piece of running time ends, the last one also ends last.
  near AS (
    SELECT
      *,
      max(wanted_until_ns) OVER (
        PARTITION BY trace_id, kind ORDER BY ts, turn ROWS UNBOUNDED PRECEDING
      ) AS until_ns,
    FROM (
      SELECT trace_id, kind, from_ns AS ts, 1 AS turn, to_ns AS wanted_until_ns, NULL AS utid,
        NULL AS cpu, NULL AS priority, NULL AS urgency, NULL AS from_ns, NULL AS to_ns,
      FROM wanted_time
      UNION ALL
      SELECT trace_id, kind, to_ns, 0, NULL, utid, cpu, priority, urgency, from_ns, to_ns FROM ran
    )
  ),
  queried AS (
    SELECT
      near.trace_id,
      near.utid,
      near.cpu,
      near.priority,
      near.kind,
      near.from_ns,
      near.to_ns,
      grouped.place_group,
      level.place,
    FROM near
    JOIN level ON level.trace_id = near.trace_id AND level.urgency = near.urgency
    JOIN grouped ON grouped.trace_id = near.trace_id AND grouped.cpu = near.cpu
    WHERE near.turn = 0 AND near.until_ns > near.from_ns
  ),
  -- One stream contains these changes and the starts (sign -1) and ends (1) of slices. The time in
  -- which the condition holds up to an end, minus that up to its start, is exact.
  stream AS (
    SELECT trace_id, place_group, kind, place, ts, turn_by, 0 AS sign,
      NULL AS utid, NULL AS cpu, NULL AS priority,
    FROM turn
    UNION ALL
    SELECT trace_id, place_group, kind, place, from_ns, 0, -1, utid, cpu, priority FROM queried
    UNION ALL
    SELECT trace_id, place_group, kind, place, to_ns, 0, 1, utid, cpu, priority FROM queried
  ),
  overlap AS (
    SELECT utid, cpu, priority, kind, sum(sign * before_ns)::BIGINT AS ns
    FROM (
      SELECT
        *,
        -- The distances from all earlier starts, minus those from all earlier stops.
        ts * sum(turn_by) OVER sofar - sum(turn_by * ts) OVER sofar AS before_ns,
      FROM stream
      WINDOW sofar AS (
        PARTITION BY trace_id, place_group, kind, place ORDER BY ts ROWS UNBOUNDED PRECEDING
      )
    )
    WHERE sign <> 0
    GROUP BY utid, cpu, priority, kind
  ),
  spent AS (
    SELECT utid, cpu, priority, on_p, run_ns::BIGINT AS run_ns
    FROM unchanged
    WHERE run_ns IS NOT NULL
    UNION ALL
    SELECT
      changed.utid,
      changed.cpu,
      changed.priority,
      bool_or(changed.on_p),
      sum(overlap_ns(changed.ts, changed.end_ns, span.start_ns, span.end_ns))::BIGINT,
    FROM changed
    JOIN span ON span.trace_id = changed.trace_id
    WHERE changed.state = 'running' AND changed.end_ns > span.start_ns AND changed.ts < span.end_ns
    GROUP BY changed.utid, changed.cpu, changed.priority
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
  -- Priority in this time as recorded.
  spent.priority,
  -- Logical CPU.
  spent.cpu,
  -- Running time on this CPU at this priority, ns. (no bounds)
  spent.run_ns,
  -- Part of run_ns during which higher-priority work that may use this CPU was ready, ns.
  -- (no bounds)
  coalesce(ready.ns, 0)::BIGINT AS higher_ready_ns,
  -- Part of run_ns during which such work ran on an E core, ns; null unless this CPU is a P core.
  -- (no bounds)
  CASE WHEN spent.on_p THEN coalesce(on_e.ns, 0) END::BIGINT AS higher_on_e_ns,
FROM spent
JOIN who ON who.utid = spent.utid
LEFT JOIN overlap AS ready
  ON ready.utid = spent.utid AND ready.cpu = spent.cpu AND ready.priority = spent.priority
  AND ready.kind = 'ready'
LEFT JOIN overlap AS on_e
  ON on_e.utid = spent.utid AND on_e.cpu = spent.cpu AND on_e.priority = spent.priority
  AND on_e.kind = 'on_e'
ORDER BY
  who.trace_id, coalesce(higher_on_e_ns, 0) + higher_ready_ns DESC, run_ns DESC, who.utid, cpu,
  priority;
