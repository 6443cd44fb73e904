-- Ready time of each thread compared with what fair sharing of the CPUs would cost it. While more
-- threads are runnable than CPUs are online, a thread's fair share is the number of CPUs times its
-- weight (share_weight) divided by the weights of all runnable threads. Real-time and deadline
-- threads of Linux take one CPU each before the others share, and are left out. Groups (cgroups,
-- autogroup) share among themselves first, which this does not model.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
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
  weighed AS (FROM share_weight(p_trace_id) SEMI JOIN left_over USING (trace_id)),
  machine AS (SELECT trace_id, any_value(cpus) AS cpus FROM weighed GROUP BY trace_id),
  part AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.utid,
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
  edge AS (
    SELECT
      trace_id,
      ts,
      sum(step_by * weight) AS weight_by,
      sum(step_by) FILTER (WHERE weight > 0) AS sharing_by,
      sum(step_by) FILTER (WHERE weight = 0) AS first_by,
    FROM (
      SELECT trace_id, from_ns AS ts, weight, 1 AS step_by FROM part
      UNION ALL
      SELECT trace_id, to_ns, weight, -1 FROM part
    )
    GROUP BY trace_id, ts
  ),
  moment AS (
    SELECT
      trace_id,
      ts,
      coalesce(lead(ts) OVER sofar, ts) - ts AS dur,
      sum(weight_by) OVER sofar AS weights,
      coalesce(sum(sharing_by) OVER sofar, 0) AS sharing,
      coalesce(sum(first_by) OVER sofar, 0) AS before_them,
    FROM edge
    WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts)
  ),
  -- For each weight, the fair ready time up to each moment of a thread that is always runnable.
  owed AS MATERIALIZED (
    SELECT
      trace_id,
      ts,
      weight,
      coalesce(sum(fair_ns) OVER sofar, 0) AS fair_ns,
      coalesce(sum(crowded_ns) OVER sofar, 0) AS crowded_ns,
    FROM (
      SELECT
        m.trace_id,
        m.ts,
        class.weight,
        CASE
          WHEN m.sharing + m.before_them > machine.cpus
            THEN m.dur * greatest(
              0.0,
              1.0 - greatest(0, machine.cpus - m.before_them) * class.weight
                / nullif(m.weights, 0)
            )
          ELSE 0.0
        END AS fair_ns,
        CASE WHEN m.sharing + m.before_them > machine.cpus THEN m.dur ELSE 0 END AS crowded_ns,
      FROM moment AS m
      JOIN machine ON machine.trace_id = m.trace_id
      JOIN (SELECT DISTINCT trace_id, weight FROM part WHERE weight > 0) AS class
        ON class.trace_id = m.trace_id
    )
    WINDOW sofar AS (
      PARTITION BY trace_id, weight ORDER BY ts
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
      ON a.trace_id = part.trace_id AND a.weight = part.weight AND a.ts = part.from_ns
    JOIN owed AS b
      ON b.trace_id = part.trace_id AND b.weight = part.weight AND b.ts = part.to_ns
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
