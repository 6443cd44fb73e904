-- How long each thread ran on each logical CPU, and how much of that with an SMT sibling busy.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (FROM topology(p_trace_id)),
  -- Periods in which the state of a sibling is unknown, and how much of that came before each. With
  -- two CPUs busy, the thread has a busy sibling whatever a third CPU does; with none, none runs.
  unclear AS MATERIALIZED (
    SELECT
      trace_id,
      core,
      ts,
      ts + dur AS end_ns,
      coalesce(
        sum(dur) OVER (
          PARTITION BY trace_id, core ORDER BY ts
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        0
      ) AS before_ns,
    FROM core_state
    WHERE unknown > 0 AND busy = 1 AND dur > 0 AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  -- Most slices are far from any unknown time: bins of the window show which.
  bin AS (
    SELECT trace_id, start_ns, end_ns, greatest(1, dur_ns // 4096) AS width_ns FROM span
  ),
  unclear_bin AS MATERIALIZED (
    SELECT DISTINCT
      c.trace_id,
      c.core,
      -- Only those of the window: a long unknown time has millions that are as short as these.
      unnest(range(
        greatest(c.ts, bin.start_ns) // bin.width_ns,
        (least(c.end_ns, bin.end_ns) - 1) // bin.width_ns + 1
      )) AS number,
    FROM unclear AS c
    JOIN bin ON bin.trace_id = c.trace_id
    WHERE c.ts < bin.end_ns AND c.end_ns > bin.start_ns
  ),
  part AS NOT MATERIALIZED (
    SELECT trace_id, utid, cpu, ts, ts + dur AS end_ns, NOT left_censored AS begins, 'run' AS kind
    FROM sched_slice
    WHERE NOT is_idle
    UNION ALL
    SELECT trace_id, utid, cpu, ts, ts + dur, false, 'shared'
    FROM sharing_slice
    WHERE dur > 0
  ),
  clipped AS NOT MATERIALIZED (
    SELECT
      part.trace_id,
      part.utid,
      part.cpu,
      part.kind,
      place.core,
      place.core_type,
      place.efficiency_class,
      greatest(part.ts, span.start_ns, place.from_ns) AS from_ns,
      least(part.end_ns, span.end_ns, place.to_ns) AS to_ns,
      part.begins AND part.ts >= span.start_ns
        AND (place.from_ns IS NULL OR part.ts >= place.from_ns) AS begins,
    FROM part
    JOIN span ON span.trace_id = part.trace_id
    LEFT JOIN place
      ON place.trace_id = part.trace_id AND place.cpu = part.cpu
      AND place.to_ns > part.ts AND place.from_ns <= part.end_ns
    WHERE (p_process IS NULL OR part.utid IN (SELECT utid FROM who))
      AND part.ts <= span.end_ns AND part.end_ns >= span.start_ns
  ),
  near AS (
    SELECT clipped.*
    FROM clipped
    JOIN bin USING (trace_id)
    SEMI JOIN unclear_bin USING (trace_id, core)
    WHERE kind = 'run' AND from_ns < to_ns
      AND (
        to_ns - from_ns > width_ns
        OR (trace_id, core, from_ns // width_ns) IN (FROM unclear_bin)
        OR (trace_id, core, (to_ns - 1) // width_ns) IN (FROM unclear_bin)
      )
  ),
  -- The unknown time up to the end of a slice minus that up to its start is exact. What the last
  -- period contains is the largest so far; an ASOF join compares all rows with all if it expects few.
  sibling_unknown AS (
    SELECT
      utid,
      cpu,
      core_type,
      efficiency_class,
      sum(sign * (before_ns + least(ts, end_ns) - unclear_ns))::BIGINT AS unknown_ns,
    FROM (
      SELECT
        * EXCLUDE (before_ns, end_ns, unclear_ns),
        max(before_ns) OVER sofar AS before_ns,
        max(end_ns) OVER sofar AS end_ns,
        max(unclear_ns) OVER sofar AS unclear_ns,
      FROM (
        SELECT trace_id, core, ts, 0 AS sign, before_ns, end_ns, ts AS unclear_ns,
          NULL AS utid, NULL AS cpu, NULL AS core_type, NULL AS efficiency_class,
        FROM unclear
        UNION ALL
        SELECT trace_id, core, unnest([from_ns, to_ns]), unnest([-1, 1]), NULL, NULL, NULL,
          utid, cpu, core_type, efficiency_class,
        FROM near
      )
      WINDOW sofar AS (PARTITION BY trace_id, core ORDER BY ts ROWS UNBOUNDED PRECEDING)
    )
    WHERE sign <> 0
    GROUP BY utid, cpu, core_type, efficiency_class
  ),
  spent AS (
    SELECT
      utid,
      cpu,
      core_type,
      efficiency_class,
      coalesce(sum(to_ns - from_ns) FILTER (WHERE kind = 'run'), 0)::BIGINT AS run_ns,
      coalesce(sum(to_ns - from_ns) FILTER (WHERE kind = 'shared'), 0)::BIGINT AS shared_ns,
      count(*) FILTER (WHERE begins) AS switches_in,
      max(to_ns - from_ns) FILTER (WHERE kind = 'run') AS longest_ns,
      -- A CPU whose core is unknown may have siblings.
      sum(to_ns - from_ns) FILTER (WHERE kind = 'run' AND core IS NULL) AS coreless_ns,
    FROM clipped
    WHERE to_ns >= from_ns
    GROUP BY utid, cpu, core_type, efficiency_class
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
  -- Logical CPU.
  spent.cpu,
  -- Core type: U (uniform), P, E or LP-E; null if unknown.
  spent.core_type,
  -- Efficiency class as the system reports it; null if unknown.
  spent.efficiency_class,
  -- Running time on this CPU, ns. (at least; unknown_ns more at most)
  spent.run_ns,
  -- Part of run_ns with all siblings idle, or without siblings, ns.
  -- (at least; unknown_ns more at most)
  (
    spent.run_ns - spent.shared_ns - coalesce(u.unknown_ns, 0) - coalesce(spent.coreless_ns, 0)
  )::BIGINT AS alone_ns,
  -- Part of run_ns with an SMT sibling busy, ns. (at least; unknown_ns more at most)
  spent.shared_ns,
  -- Part of run_ns in which the state of a sibling, or which CPUs are siblings, is unknown, ns.
  -- (bound)
  (coalesce(u.unknown_ns, 0) + coalesce(spent.coreless_ns, 0))::BIGINT AS sibling_unknown_ns,
  -- Switch-ins on this CPU. (at least)
  spent.switches_in,
  -- Longest slice on this CPU within the window, ns. (at least)
  spent.longest_ns::BIGINT AS longest_ns,
  -- run_ns as a share of the thread's running time, percent. (no bounds)
  100.0 * spent.run_ns / nullif(sum(spent.run_ns) OVER (PARTITION BY who.utid), 0)
    AS of_thread_pct,
  -- sibling_unknown_ns, plus the time in which the states of both the thread and the CPU may be
  -- unknown, ns. (bound)
  (
    coalesce(u.unknown_ns, 0)
    + coalesce(spent.coreless_ns, 0)
    + least(coalesce(t.run_unknown_ns, 0), coalesce(c.unknown_ns, 0))
  )::BIGINT AS unknown_ns,
FROM spent
JOIN who ON who.utid = spent.utid
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t ON t.utid = spent.utid
LEFT JOIN cpu_unknown(p_trace_id, p_from_ns, p_to_ns) AS c
  ON c.trace_id = who.trace_id AND c.cpu = spent.cpu
LEFT JOIN sibling_unknown AS u
  ON u.utid = spent.utid AND u.cpu = spent.cpu
  AND u.core_type IS NOT DISTINCT FROM spent.core_type
  AND u.efficiency_class IS NOT DISTINCT FROM spent.efficiency_class
ORDER BY
  who.trace_id, sum(spent.run_ns) OVER (PARTITION BY who.utid) DESC, who.utid, run_ns DESC,
  spent.cpu, efficiency_class;
