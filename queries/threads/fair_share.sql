-- Ready time of each thread compared with what fair sharing of the CPUs would cost it. While more
-- threads are runnable than CPUs are online, each gets CPUs in proportion to its weight
-- (share_weight), one at most; what it cannot use is shared by the others. On Linux, groups of
-- threads (sharing_group) share in this way first, each with at most as many CPUs as it has runnable
-- threads. Real-time and deadline threads of Linux take one CPU each before the others share, and
-- are left out.
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
  weighed AS MATERIALIZED (
    SELECT w.*, coalesce(g.path, []) AS path, g.weights
    FROM share_weight(p_trace_id) AS w
    SEMI JOIN left_over USING (trace_id)
    LEFT JOIN sharing_group(p_trace_id) AS g ON g.utid = w.utid
  ),
  machine AS (SELECT trace_id, any_value(cpus) AS cpus FROM weighed GROUP BY trace_id),
  -- Each group, by its path.
  node AS (
    SELECT trace_id, path[:depth] AS path, any_value(weights[depth]) AS weight
    FROM (SELECT trace_id, path, weights, unnest(range(1, len(path) + 1)) AS depth FROM weighed)
    GROUP BY ALL
  ),
  part AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.utid,
      w.path,
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
    SELECT trace_id, ts, path, weight, sum(step_by) AS step_by
    FROM (
      SELECT trace_id, from_ns AS ts, path, weight, 1 AS step_by FROM part
      UNION ALL
      SELECT trace_id, to_ns, path, weight, -1 FROM part
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
  class AS (SELECT DISTINCT trace_id, path, weight FROM edge WHERE weight > 0),
  -- Runnable threads of each class from each moment on.
  runnable AS MATERIALIZED (
    SELECT
      m.*,
      m.sharing + m.before_them > machine.cpus AS is_crowded,
      greatest(0, machine.cpus - m.before_them) AS cpus,
      class.path,
      class.weight,
      sum(coalesce(edge.step_by, 0)) OVER (
        PARTITION BY m.trace_id, class.path, class.weight ORDER BY m.ts
      ) AS threads,
    FROM moment AS m
    JOIN machine ON machine.trace_id = m.trace_id
    JOIN class ON class.trace_id = m.trace_id
    LEFT JOIN edge
      ON edge.trace_id = m.trace_id AND edge.ts = m.ts AND edge.path = class.path
      AND edge.weight = class.weight
  ),
  -- What shares the CPUs of a group: its own threads of one weight, or a group in it. `most` is the
  -- number of CPUs that it can use.
  entity AS (
    SELECT trace_id, ts, path AS parent, NULL::VARCHAR[] AS path, threads * weight AS weight,
      threads AS most
    FROM runnable
    WHERE is_crowded AND threads > 0
    UNION ALL
    SELECT r.trace_id, r.ts, node.path[:-2], node.path, any_value(node.weight), sum(r.threads)
    FROM runnable AS r
    JOIN node ON node.trace_id = r.trace_id AND node.path = r.path[:len(node.path)]
    WHERE r.is_crowded AND r.threads > 0
    GROUP BY r.trace_id, r.ts, node.path
  ),
  -- In the order in which they have all that they can use while the CPUs increase.
  filled AS MATERIALIZED (
    SELECT
      *,
      coalesce(sum(most) OVER (filling ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
        AS most_before,
      sum(weight) OVER (filling ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS weight_from,
    FROM entity
    WINDOW filling AS (PARTITION BY trace_id, ts, parent ORDER BY most / weight, path, weight)
  ),
  -- CPUs for each unit of weight in each group: those that are left by what has all that it can use,
  -- divided among the others.
  level AS (
    SELECT f.trace_id, f.ts, f.parent, max((m.cpus - most_before) / weight_from) AS cpus_by_weight
    FROM filled AS f
    JOIN (SELECT DISTINCT trace_id, ts, cpus FROM runnable) AS m
      ON m.trace_id = f.trace_id AND m.ts = f.ts
    WHERE len(f.parent) = 0
    GROUP BY ALL
    UNION ALL
    SELECT
      own.trace_id,
      own.ts,
      own.path,
      max((least(own.most, level.cpus_by_weight * own.weight) - inside.most_before)
        / inside.weight_from),
    FROM level
    JOIN filled AS own
      ON own.trace_id = level.trace_id AND own.ts = level.ts AND own.parent = level.parent
    JOIN filled AS inside
      ON inside.trace_id = own.trace_id AND inside.ts = own.ts AND inside.parent = own.path
    GROUP BY own.trace_id, own.ts, own.path
  ),
  -- For each class, the fair ready time up to each moment of a thread that is always runnable.
  owed AS MATERIALIZED (
    SELECT
      r.trace_id,
      r.ts,
      r.path,
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
      ON level.trace_id = r.trace_id AND level.ts = r.ts AND level.parent = r.path
    WINDOW sofar AS (
      PARTITION BY r.trace_id, r.path, r.weight ORDER BY r.ts
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
  ),
  spent AS (
    SELECT
      part.utid,
      any_value(part.weight)::INTEGER AS weight,
      coalesce(sum(to_ns - from_ns) FILTER (WHERE NOT is_ready), 0)::BIGINT AS run_ns,
      coalesce(sum(to_ns - from_ns) FILTER (WHERE is_ready), 0)::BIGINT AS ready_ns,
      coalesce(sum(b.crowded_ns - a.crowded_ns) FILTER (WHERE is_ready), 0)::BIGINT
        AS crowded_ready_ns,
      round(sum(b.fair_ns - a.fair_ns))::BIGINT AS fair_ready_ns,
    FROM part
    JOIN owed AS a
      ON a.trace_id = part.trace_id AND a.path = part.path AND a.weight = part.weight
      AND a.ts = part.from_ns
    JOIN owed AS b
      ON b.trace_id = part.trace_id AND b.path = part.path AND b.weight = part.weight
      AND b.ts = part.to_ns
    WHERE NOT part.is_unclear
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
  -- Its weight: 1024 for nice 0, and wherever threads do not share by weight.
  spent.weight,
  -- Running time, ns. (at least)
  spent.run_ns,
  -- Ready time: runnable but not running, ns. (at least)
  spent.ready_ns,
  -- Part of ready_ns during which more threads were runnable than CPUs were online, ns. (at least)
  spent.crowded_ready_ns,
  -- Ready time that fair sharing would cost it in the same running and ready time, ns.
  -- (no bounds)
  spent.fair_ready_ns,
  -- Ready time beyond that, ns; negative for a thread that got more than its share.
  -- (no bounds)
  spent.ready_ns - spent.fair_ready_ns AS excess_ready_ns,
FROM spent
JOIN who ON who.utid = spent.utid
ORDER BY who.trace_id, excess_ready_ns DESC, who.utid;
