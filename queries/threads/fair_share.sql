-- Ready time of each thread compared with what fair sharing of the CPUs would cost it. While more
-- threads are runnable than CPUs are online, each gets CPUs in proportion to its weight
-- (share_weight), one at most; what it cannot use is shared by the others. On Linux, groups of
-- threads (sharing_group) share in this way first, each with at most as many CPUs as it has runnable
-- threads. Real-time and deadline threads of Linux take one CPU each before the others share, and
-- are left out. Nothing is fair or unfair for a thread whose priority was never recorded: it may be
-- one of them.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH RECURSIVE
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  summary AS (
    SELECT sums.*
    FROM fair_share_sum AS sums
    JOIN span
      ON span.trace_id = sums.trace_id AND span.start_ns = sums.start_ns
      AND span.end_ns = sums.end_ns
  ),
  -- Recordings without a summary of this window.
  left_over AS (FROM span ANTI JOIN summary USING (trace_id)),
  grouped AS MATERIALIZED (
    SELECT w.*, coalesce(g.path, []) AS path, g.weights
    FROM share_weight(p_trace_id) AS w
    SEMI JOIN left_over USING (trace_id)
    LEFT JOIN sharing_group(p_trace_id) AS g ON g.utid = w.utid
  ),
  machine AS (SELECT trace_id, any_value(cpus) AS cpus FROM grouped GROUP BY trace_id),
  -- Each group, by its path. The root has the number 0.
  node AS MATERIALIZED (
    SELECT
      trace_id,
      path[:depth] AS path,
      any_value(weights[depth]) AS weight,
      row_number() OVER (PARTITION BY trace_id ORDER BY path[:depth]) AS node,
    FROM (SELECT trace_id, path, weights, unnest(range(1, len(path) + 1)) AS depth FROM grouped)
    GROUP BY trace_id, path[:depth]
  ),
  weighed AS (
    SELECT grouped.*, coalesce(node.node, 0) AS node
    FROM grouped
    LEFT JOIN node ON node.trace_id = grouped.trace_id AND node.path = grouped.path
  ),
  -- Each group with those that contain it, itself included.
  above AS (
    SELECT inside.trace_id, inside.node, g.node AS group_node, g.weight,
      coalesce(parent.node, 0) AS parent
    FROM node AS inside
    JOIN node AS g ON g.trace_id = inside.trace_id AND g.path = inside.path[:len(g.path)]
    LEFT JOIN node AS parent ON parent.trace_id = g.trace_id AND parent.path = g.path[:-2]
  ),
  part AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.utid,
      w.node,
      w.weight,
      w.is_unclear,
      s.state = 'ready' AS is_ready,
      greatest(s.ts, start_ns) AS from_ns,
      least(s.ts + s.dur, end_ns) AS to_ns,
    FROM thread_state AS s
    JOIN left_over AS span ON span.trace_id = s.trace_id
    JOIN weighed AS w ON w.utid = s.utid
    WHERE s.state IN ('running', 'ready') AND s.ts < end_ns AND s.ts + s.dur > start_ns
  ),
  -- Changes of the number of runnable threads of one weight in one group.
  edge AS MATERIALIZED (
    SELECT trace_id, ts, node, weight, sum(step_by) AS step_by
    FROM (
      SELECT trace_id, from_ns AS ts, node, weight, 1 AS step_by FROM part
      UNION ALL
      SELECT trace_id, to_ns, node, weight, -1 FROM part
    )
    GROUP BY ALL
  ),
  moment AS MATERIALIZED (
    SELECT
      trace_id,
      ts,
      coalesce(lead(ts) OVER sofar, ts) - ts AS dur,
      coalesce(sum(sharing_by) OVER sofar, 0) AS sharing,
      coalesce(sum(first_by) OVER sofar, 0) AS before_them,
    FROM (
      SELECT
        trace_id,
        ts,
        sum(step_by) FILTER (WHERE weight > 0) AS sharing_by,
        sum(step_by) FILTER (WHERE weight = 0) AS first_by,
      FROM edge
      GROUP BY trace_id, ts
    )
    WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts)
  ),
  class AS (SELECT DISTINCT trace_id, node, weight FROM edge WHERE weight > 0),
  -- Runnable threads of each class from each moment on.
  runnable AS MATERIALIZED (
    SELECT
      m.trace_id,
      m.ts,
      m.dur,
      m.sharing + m.before_them > machine.cpus AS is_crowded,
      greatest(0, machine.cpus - m.before_them) AS cpus,
      class.node,
      class.weight,
      sum(coalesce(edge.step_by, 0)) OVER (
        PARTITION BY m.trace_id, class.node, class.weight ORDER BY m.ts
      ) AS threads,
    FROM moment AS m
    JOIN machine ON machine.trace_id = m.trace_id
    JOIN class ON class.trace_id = m.trace_id
    LEFT JOIN edge
      ON edge.trace_id = m.trace_id AND edge.ts = m.ts AND edge.node = class.node
      AND edge.weight = class.weight
  ),
  -- What shares the CPUs of a group: its own threads of one weight, or a group in it. `most` is the
  -- number of CPUs that it can use.
  entity AS (
    SELECT trace_id, ts, cpus, node AS parent, NULL::BIGINT AS node, threads * weight AS weight,
      threads AS most
    FROM runnable
    WHERE is_crowded AND threads > 0
    UNION ALL
    SELECT r.trace_id, r.ts, any_value(r.cpus), above.parent, above.group_node,
      any_value(above.weight), sum(r.threads)
    FROM runnable AS r
    JOIN above ON above.trace_id = r.trace_id AND above.node = r.node
    WHERE r.is_crowded AND r.threads > 0
    GROUP BY r.trace_id, r.ts, above.parent, above.group_node
  ),
  -- In the order in which they have all that they can use while the CPUs increase.
  filled AS MATERIALIZED (
    SELECT
      *,
      coalesce(sum(most) OVER (filling ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
        AS most_before,
      sum(weight) OVER (filling ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS weight_from,
    FROM entity
    WINDOW filling AS (PARTITION BY trace_id, ts, parent ORDER BY most / weight, node, weight)
  ),
  -- CPUs for each unit of weight in each group: those that are left by what has all that it can use,
  -- divided among the others.
  level AS (
    SELECT trace_id, ts, parent AS node, max((cpus - most_before) / weight_from) AS cpus_by_weight
    FROM filled
    WHERE parent = 0
    GROUP BY ALL
    UNION ALL
    SELECT
      own.trace_id,
      own.ts,
      own.node,
      max((least(own.most, level.cpus_by_weight * own.weight) - inside.most_before)
        / inside.weight_from),
    FROM level
    JOIN filled AS own
      ON own.trace_id = level.trace_id AND own.ts = level.ts AND own.parent = level.node
    JOIN filled AS inside
      ON inside.trace_id = own.trace_id AND inside.ts = own.ts AND inside.parent = own.node
    GROUP BY own.trace_id, own.ts, own.node
  ),
  -- For each class, the fair ready time up to each moment of a thread that is always runnable.
  owed AS MATERIALIZED (
    SELECT
      r.trace_id,
      r.ts,
      r.node,
      r.weight,
      coalesce(sum(
        CASE WHEN is_crowded
          -- Exact in a sum of any order.
          THEN round(dur * greatest(0.0, 1.0 - coalesce(level.cpus_by_weight, 0) * r.weight)
            * 1024) / 1024
          ELSE 0.0 END
      ) OVER sofar, 0) AS fair_ns,
      coalesce(sum(CASE WHEN is_crowded THEN dur ELSE 0 END) OVER sofar, 0) AS crowded_ns,
    FROM runnable AS r
    LEFT JOIN level
      ON level.trace_id = r.trace_id AND level.ts = r.ts AND level.node = r.node
    WINDOW sofar AS (
      PARTITION BY r.trace_id, r.node, r.weight ORDER BY r.ts
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
  ),
  spent AS (
    SELECT
      part.utid,
      CASE WHEN NOT bool_or(part.is_unclear) THEN any_value(part.weight)::INTEGER END AS weight,
      coalesce(sum(to_ns - from_ns) FILTER (WHERE NOT is_ready), 0)::BIGINT AS run_ns,
      coalesce(sum(to_ns - from_ns) FILTER (WHERE is_ready), 0)::BIGINT AS ready_ns,
      coalesce(sum(b.crowded_ns - a.crowded_ns) FILTER (WHERE is_ready), 0)::BIGINT
        AS crowded_ready_ns,
      CASE WHEN NOT bool_or(part.is_unclear) THEN round(sum(b.fair_ns - a.fair_ns))::BIGINT END
        AS fair_ready_ns,
    FROM part
    JOIN owed AS a
      ON a.trace_id = part.trace_id AND a.node = part.node AND a.weight = part.weight
      AND a.ts = part.from_ns
    JOIN owed AS b
      ON b.trace_id = part.trace_id AND b.node = part.node AND b.weight = part.weight
      AND b.ts = part.to_ns
    GROUP BY part.utid
    UNION ALL BY NAME
    SELECT * EXCLUDE (trace_id, start_ns, end_ns) FROM summary
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
  -- Its weight: 1024 for nice 0, and wherever threads do not share by weight; null if its priority
  -- was never recorded.
  spent.weight,
  -- Running time, ns. (at least)
  spent.run_ns,
  -- Ready time: runnable but not running, ns. (at least)
  spent.ready_ns,
  -- Part of ready_ns during which more threads were runnable than CPUs were online, ns. (at least)
  spent.crowded_ready_ns,
  -- Ready time that fair sharing would cost it in the same running and ready time, ns; null if its
  -- weight is. (no bounds)
  spent.fair_ready_ns,
  -- Ready time beyond that, ns; negative for a thread that got more than its share; null if its
  -- weight is. (no bounds)
  spent.ready_ns - spent.fair_ready_ns AS excess_ready_ns,
FROM spent
JOIN who ON who.utid = spent.utid
ORDER BY who.trace_id, excess_ready_ns DESC NULLS LAST, who.utid;
