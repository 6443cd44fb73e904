-- Running time of each thread on each logical CPU, and how much of it while work of a higher
-- priority stood ready that may use this CPU, or, on a P core, ran on an E core and may use this
-- CPU. Running and ready time count at the priority and with the allowed CPUs of each moment; ready
-- time that no stay follows is left out (a lower bound), and so are threads while they may use one
-- CPU alone. On Linux a lower number is the higher priority, and only numbers below 100 (real-time
-- and deadline) are strict: from 100 on threads share by weight, and none is above another.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name run; whoever is ready counts. Null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (FROM topology(p_trace_id)),
  stay AS MATERIALIZED (
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
  spell AS MATERIALIZED (
    SELECT
      *,
      dense_rank() OVER (ORDER BY trace_id, cpus) AS class,
      row_number() OVER (PARTITION BY utid ORDER BY from_ns) AS number,
    FROM affinity_spell(p_trace_id)
    SEMI JOIN stay USING (utid)
  ),
  -- What happens to each thread, in order; at equal times an end comes first, a switch-in last. A
  -- slice of length zero ends a ready period and begins nothing.
  moment AS (
    SELECT utid, end_ns AS ts, 0 AS turn, 'off' AS state, NULL AS cpu, NULL AS on_p, NULL AS on_e,
      NULL AS class, NULL AS told_after, NULL AS told_before,
    FROM stay
    WHERE end_ns > ts
    UNION ALL
    SELECT utid, from_ns, 1, NULL, NULL, NULL, NULL, class, NULL, NULL FROM spell
    UNION ALL
    SELECT utid, ready_ns, 2, 'ready', NULL, NULL, NULL, NULL, NULL, NULL
    FROM stay
    WHERE ready_ns < ts
    UNION ALL
    SELECT utid, ts, 3, NULL, NULL, NULL, NULL, NULL, new_priority, old_priority
    FROM priority_change
    WHERE kind = 'dynamic' AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION ALL
    SELECT utid, ts, CASE WHEN end_ns > ts THEN 4 ELSE 1 END,
      CASE WHEN end_ns > ts THEN 'running' ELSE 'off' END, cpu, on_p, on_e, NULL, priority,
      priority,
    FROM stay
  ),
  -- Running holds the priority told last; ready the one before what is told next.
  piece AS MATERIALIZED (
    SELECT
      trace.trace_id,
      m.* EXCLUDE (told_after, told_before, spells),
      spell.class,
      CASE WHEN m.state = 'running' THEN told_after ELSE told_before END AS priority,
      -- Nice levels of Linux share by weight: none of them comes before another.
      CASE
        WHEN trace.source = 'etw'
          THEN CASE WHEN m.state = 'running' THEN told_after ELSE told_before END
        ELSE -least(100, CASE WHEN m.state = 'running' THEN told_after ELSE told_before END)
      END AS urgency,
    FROM (
      SELECT
        utid,
        ts,
        lead(ts) OVER sofar AS end_ns,
        last_value(state IGNORE NULLS) OVER sofar AS state,
        last_value(cpu IGNORE NULLS) OVER sofar AS cpu,
        last_value(on_p IGNORE NULLS) OVER sofar AS on_p,
        last_value(on_e IGNORE NULLS) OVER sofar AS on_e,
        count(class) OVER sofar AS spells,
        last_value(told_after IGNORE NULLS) OVER sofar AS told_after,
        first_value(told_before IGNORE NULLS) OVER (
          PARTITION BY utid ORDER BY ts, turn ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ) AS told_before,
      FROM moment
      WINDOW sofar AS (PARTITION BY utid ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
    ) AS m
    JOIN thread ON thread.utid = m.utid
    -- A set may hold for millions of rows: to look back for it from each takes their square.
    LEFT JOIN spell ON spell.utid = m.utid AND spell.number = m.spells
    JOIN trace ON trace.trace_id = thread.trace_id
    WHERE m.state IN ('running', 'ready') AND m.ts < m.end_ns
  ),
  -- The 60 highest urgencies apart; those below them as one.
  level AS (
    SELECT
      trace_id,
      urgency,
      greatest(
        0,
        60 - row_number() OVER (PARTITION BY trace_id ORDER BY urgency DESC)
      )::INTEGER AS place,
    FROM (SELECT DISTINCT trace_id, urgency FROM piece)
  ),
  set_of AS (SELECT DISTINCT trace_id, class, cpus FROM spell WHERE len(cpus) > 1),
  -- CPUs that the same sets hold are one group.
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
  wished AS (
    SELECT piece.trace_id, piece.class, wish.kind, piece.ts, piece.end_ns, level.place
    FROM piece
    JOIN (VALUES ('ready', 'ready'), ('running', 'on_e')) AS wish (state, kind)
      ON wish.state = piece.state
    SEMI JOIN set_of ON set_of.class = piece.class
    JOIN level ON level.trace_id = piece.trace_id AND level.urgency = piece.urgency
    WHERE piece.state = 'ready' OR piece.on_e
  ),
  edge AS (
    SELECT w.trace_id, g.place_group, w.kind, w.place, w.ts, sum(w.step_by) AS step_by
    FROM (
      SELECT trace_id, class, kind, place, ts, 1 AS step_by FROM wished
      UNION ALL
      SELECT trace_id, class, kind, place, end_ns, -1 FROM wished
    ) AS w
    JOIN group_class AS g ON g.trace_id = w.trace_id AND g.class = w.class
    GROUP BY w.trace_id, g.place_group, w.kind, w.place, w.ts
  ),
  -- For each urgency at which something runs: whether anything above it wishes, at each edge.
  below AS (
    SELECT edge.trace_id, edge.place_group, edge.kind, low.place, edge.ts,
      sum(edge.step_by) AS step_by,
    FROM edge
    JOIN (SELECT DISTINCT trace_id, place FROM level) AS low
      ON low.trace_id = edge.trace_id AND low.place < edge.place
    GROUP BY ALL
  ),
  counted AS (
    SELECT
      * EXCLUDE (step_by),
      sum(step_by) OVER (PARTITION BY trace_id, place_group, kind, place ORDER BY ts) > 0 AS holds,
    FROM below
  ),
  -- From where on it holds (1), and from where on no more (-1).
  turn AS (
    SELECT
      *,
      CASE WHEN holds THEN 1 WHEN lag(holds) OVER before THEN -1 ELSE 0 END AS turn_by,
    FROM counted
    WINDOW before AS (PARTITION BY trace_id, place_group, kind, place ORDER BY ts)
    QUALIFY holds IS DISTINCT FROM lag(holds) OVER before
  ),
  asked AS (
    SELECT
      piece.trace_id,
      piece.utid,
      piece.cpu,
      piece.priority,
      grouped.place_group,
      level.place,
      kind.kind,
      greatest(piece.ts, span.start_ns) AS from_ns,
      least(piece.end_ns, span.end_ns) AS to_ns,
    FROM piece
    JOIN span ON span.trace_id = piece.trace_id
    SEMI JOIN who ON who.utid = piece.utid
    JOIN level ON level.trace_id = piece.trace_id AND level.urgency = piece.urgency
    JOIN grouped ON grouped.trace_id = piece.trace_id AND grouped.cpu = piece.cpu
    CROSS JOIN (VALUES ('ready'), ('on_e')) AS kind (kind)
    WHERE piece.state = 'running' AND piece.end_ns > span.start_ns AND piece.ts < span.end_ns
      AND (kind.kind = 'ready' OR piece.on_p)
  ),
  -- Turns and the begins (sign -1) and ends (1) of stays in one stream: the time that holds up to
  -- an end, less that up to its begin, is exact.
  stream AS (
    SELECT trace_id, place_group, kind, place, ts, turn_by, 0 AS sign,
      NULL AS utid, NULL AS cpu, NULL AS priority,
    FROM turn
    UNION ALL
    SELECT trace_id, place_group, kind, place, from_ns, 0, -1, utid, cpu, priority FROM asked
    UNION ALL
    SELECT trace_id, place_group, kind, place, to_ns, 0, 1, utid, cpu, priority FROM asked
  ),
  -- Where nothing ever holds, to look back for what held last would take the square of the rows.
  in_turn AS (
    SELECT
      * EXCLUDE (turn_by),
      row_number() OVER sofar AS number,
      CASE WHEN sum(turn_by) OVER sofar > 0 THEN lead(ts) OVER sofar - ts ELSE 0 END AS held_ns,
    FROM stream
    WINDOW sofar AS (
      PARTITION BY trace_id, place_group, kind, place ORDER BY ts ROWS UNBOUNDED PRECEDING
    )
  ),
  beside AS (
    SELECT utid, cpu, priority, kind, sum(sign * before_ns)::BIGINT AS ns
    FROM (
      SELECT
        *,
        coalesce(
          sum(held_ns) OVER (
            PARTITION BY trace_id, place_group, kind, place ORDER BY number
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ),
          0
        ) AS before_ns,
      FROM in_turn
    )
    WHERE sign <> 0
    GROUP BY utid, cpu, priority, kind
  ),
  spent AS (
    SELECT
      piece.utid,
      piece.cpu,
      piece.priority,
      bool_or(piece.on_p) AS on_p,
      sum(least(piece.end_ns, span.end_ns) - greatest(piece.ts, span.start_ns))::BIGINT AS run_ns,
    FROM piece
    JOIN span ON span.trace_id = piece.trace_id
    WHERE piece.state = 'running' AND piece.end_ns > span.start_ns AND piece.ts < span.end_ns
    GROUP BY piece.utid, piece.cpu, piece.priority
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
  -- Running time here at this priority, ns. (no bounds)
  spent.run_ns,
  -- Of it: while work of a higher priority stood ready that may use this CPU, ns. (no bounds)
  coalesce(ready.ns, 0)::BIGINT AS higher_ready_ns,
  -- Of it: while such work ran on an E core, ns; null on a CPU that is not P. (no bounds)
  CASE WHEN spent.on_p THEN coalesce(on_e.ns, 0) END::BIGINT AS higher_on_e_ns,
FROM spent
JOIN who ON who.utid = spent.utid
LEFT JOIN beside AS ready
  ON ready.utid = spent.utid AND ready.cpu = spent.cpu AND ready.priority = spent.priority
  AND ready.kind = 'ready'
LEFT JOIN beside AS on_e
  ON on_e.utid = spent.utid AND on_e.cpu = spent.cpu AND on_e.priority = spent.priority
  AND on_e.kind = 'on_e'
ORDER BY
  who.trace_id, coalesce(higher_on_e_ns, 0) + higher_ready_ns DESC, run_ns DESC, who.utid, cpu,
  priority;
