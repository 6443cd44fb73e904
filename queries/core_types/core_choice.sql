-- What kind of core each thread ran on: a P core with its SMT siblings idle, a P core with an SMT
-- sibling busy, or an E core; and for how long a better core was idle meanwhile. A core is better
-- only if the thread may use it at that moment, it is not parked, and the whole core was idle for
-- at least p_min_idle_ns.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_min_idle_ns [100000]: shortest idle period of a core that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  used AS (
    SELECT
      trace_id,
      any_value(process) AS process,
      any_value(thread) AS thread,
      any_value(tid) AS tid,
      utid,
      sum(run_ns)::BIGINT AS run_ns,
      coalesce(sum(alone_ns) FILTER (WHERE core_type IN ('P', 'U')), 0)::BIGINT AS p_alone_ns,
      coalesce(sum(shared_ns) FILTER (WHERE core_type IN ('P', 'U')), 0)::BIGINT AS p_shared_ns,
      coalesce(sum(sibling_unknown_ns) FILTER (WHERE core_type IN ('P', 'U')), 0)::BIGINT
        AS p_unknown_ns,
      coalesce(sum(run_ns) FILTER (WHERE core_type IN ('E', 'LP-E')), 0)::BIGINT AS e_ns,
      coalesce(sum(run_ns) FILTER (WHERE core_type IS NULL), 0)::BIGINT AS untyped_ns,
    FROM thread_core_use(p_trace_id, p_from_ns, p_to_ns, p_process)
    GROUP BY trace_id, utid
  ),
  shared AS (
    SELECT
      s.utid,
      sum(clipped_ns(s.ts, s.dur, span.start_ns, span.end_ns))::BIGINT AS idle_ns,
    FROM sharing_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    JOIN topology(p_trace_id) AS place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND s.ts >= place.from_ns AND s.ts < place.to_ns
    WHERE s.any_type_idle_ns >= p_min_idle_ns AND place.core_type IN ('P', 'U')
      AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
    GROUP BY s.utid
  ),
  slow AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.utid,
      greatest(s.ts, span.start_ns, place.from_ns) AS from_ns,
      least(s.ts + s.dur, span.end_ns, place.to_ns) AS to_ns,
      row_number() OVER () AS slice,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    JOIN topology(p_trace_id) AS place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND place.to_ns > s.ts AND place.from_ns < s.ts + s.dur
    SEMI JOIN used ON used.utid = s.utid
    WHERE NOT s.is_idle AND place.core_type IN ('E', 'LP-E') AND s.dur > 0
      AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
  ),
  allowed AS MATERIALIZED (
    SELECT
      *,
      dense_rank() OVER (ORDER BY trace_id, cpus) AS class,
      row_number() OVER (PARTITION BY utid ORDER BY from_ns) AS number,
    FROM affinity_spell(p_trace_id)
    SEMI JOIN slow USING (utid)
  ),
  class AS (SELECT DISTINCT trace_id, class, cpus FROM allowed),
  -- Slices are split where the thread's affinity changes. At equal times, ends come first.
  edge AS (
    SELECT utid, to_ns AS ts, 0 AS turn, -1 AS slice FROM slow
    UNION ALL
    SELECT utid, from_ns, 1, NULL FROM allowed
    UNION ALL
    SELECT utid, from_ns, 2, slice FROM slow
  ),
  placed AS MATERIALIZED (
    SELECT e.utid, e.from_ns, e.to_ns, e.slice, allowed.class, allowed.is_known
    FROM (
      SELECT
        utid,
        ts AS from_ns,
        lead(ts) OVER sofar AS to_ns,
        last_value(slice IGNORE NULLS) OVER sofar AS slice,
        count(CASE WHEN turn = 1 THEN 1 END) OVER sofar AS spells,
      FROM edge
      WINDOW sofar AS (PARTITION BY utid ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
    ) AS e
    -- A set may apply to millions of rows: searching backwards from each row would scale
    -- quadratically.
    LEFT JOIN allowed ON allowed.utid = e.utid AND allowed.number = e.spells
    WHERE e.slice > 0 AND e.from_ns < e.to_ns
  ),
  free AS (
    SELECT class.trace_id, class.class, idle.core, idle.ts, idle.ts + idle.dur AS end_ns
    FROM whole_idle_core(p_trace_id, p_min_idle_ns) AS idle
    JOIN class ON class.trace_id = idle.trace_id AND list_has_any(class.cpus, idle.cpus)
    WHERE idle.core_type IN ('P', 'U') AND idle.dur > 0
  ),
  -- Where the idle periods of several cores overlap, core -1 for any core has a single one.
  begun AS (
    SELECT
      *,
      coalesce(
        ts > max(end_ns) OVER (
          PARTITION BY trace_id, class ORDER BY ts, core
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        true
      ) AS begins,
    FROM free
  ),
  free_each AS MATERIALIZED (
    SELECT trace_id, class, core, ts, end_ns FROM free
    UNION ALL
    SELECT trace_id, class, -1, min(ts), max(end_ns)
    FROM (
      SELECT
        *,
        sum(begins::INTEGER) OVER (
          PARTITION BY trace_id, class ORDER BY ts, core ROWS UNBOUNDED PRECEDING
        ) AS number,
      FROM begun
    )
    GROUP BY trace_id, class, number
  ),
  -- How long the core was idle before each period.
  idle_so_far AS (
    SELECT
      *,
      coalesce(
        sum(end_ns - ts) OVER (
          PARTITION BY trace_id, class, core ORDER BY ts
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        0
      ) AS before_ns,
    FROM free_each
  ),
  placed_core AS (
    SELECT placed.*, place.trace_id, place.core
    FROM placed
    JOIN (SELECT DISTINCT trace_id, class, core FROM free_each) AS place
      ON place.class = placed.class
  ),
  -- The idle time up to a slice's end minus that up to its start is exact.
  idle_overlap AS (
    SELECT
      any_value(part.utid) AS utid,
      part.core,
      sum(part.sign * (idle.before_ns + least(part.ts, idle.end_ns) - idle.ts)) AS ns,
    FROM (
      SELECT
        trace_id, class, core, slice, utid, unnest([from_ns, to_ns]) AS ts,
        unnest([-1, 1]) AS sign,
      FROM placed_core
    ) AS part
    ASOF JOIN idle_so_far AS idle
      ON idle.trace_id = part.trace_id AND idle.class = part.class AND idle.core = part.core
      AND idle.ts <= part.ts
    GROUP BY part.slice, part.core
  ),
  core_sum AS (
    SELECT utid, core, sum(ns)::BIGINT AS ns, max(ns)::BIGINT AS longest_ns
    FROM idle_overlap
    GROUP BY utid, core
  ),
  better AS (
    SELECT
      utid,
      max(ns) FILTER (WHERE core = -1) AS idle_ns,
      max(longest_ns) FILTER (WHERE core = -1) AS longest_ns,
      arg_max(core, (ns, -core)) FILTER (WHERE core >= 0 AND ns > 0) AS idle_core,
      max(ns) FILTER (WHERE core >= 0 AND ns > 0) AS idle_core_ns,
    FROM core_sum
    GROUP BY utid
  )
SELECT
  -- Recording.
  used.trace_id,
  -- Name of the process; null if not recorded.
  used.process,
  -- Name of the thread.
  used.thread,
  -- Thread id.
  used.tid,
  -- Thread, unique in the database.
  used.utid,
  -- Running time, ns. (from run_ns to run_high_ns)
  used.run_ns,
  -- run_ns plus the unknown time in which it may have run, ns. (bound)
  (used.run_ns + coalesce(t.run_unknown_ns, 0))::BIGINT AS run_high_ns,
  -- Part of run_ns on a P core (or a core of a uniform machine) with its SMT siblings idle, ns.
  -- (at least; unknown_ns more at most)
  used.p_alone_ns,
  -- Part of run_ns on such a core with an SMT sibling busy, ns. (at least; unknown_ns more at most)
  used.p_shared_ns,
  -- Part of run_ns on such a core with the state of a sibling unknown, ns. (bound)
  used.p_unknown_ns,
  -- Part of run_ns on an E or LP-E core, ns. (at least; unknown_ns more at most)
  used.e_ns,
  -- Part of run_ns on a core of unknown or numbered type, ns. (no bounds)
  (used.run_ns - used.p_alone_ns - used.p_shared_ns - used.p_unknown_ns - used.e_ns)::BIGINT
    AS other_ns,
  -- Part of e_ns during which a whole P core that it may use was idle, ns. (at least)
  coalesce(better.idle_ns, 0)::BIGINT AS e_beside_idle_p_ns,
  -- Longest such part of a single slice, ns; null if there is none. (at least)
  nullif(better.longest_ns, 0)::BIGINT AS e_beside_idle_p_longest_ns,
  -- P core that was idle longest during e_ns; null if none was.
  better.idle_core,
  -- How long that core was idle during e_ns, ns; null if none was. (at least)
  better.idle_core_ns::BIGINT AS idle_core_ns,
  -- Part of p_shared_ns during which a whole core of any type was idle, ns. (at least)
  coalesce(shared.idle_ns, 0)::BIGINT AS p_shared_beside_idle_ns,
  -- False: its affinity is unknown and taken as the CPUs it ran on (a lower bound); null: it never
  -- ran on an E core.
  affinity.is_known AS affinity_known,
  -- p_unknown_ns, plus the time on cores of unknown type, plus the unknown time in which it may
  -- have run, ns. (bound)
  (used.p_unknown_ns + used.untyped_ns + coalesce(t.run_unknown_ns, 0))::BIGINT AS unknown_ns,
FROM used
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t ON t.utid = used.utid
LEFT JOIN (SELECT utid, bool_and(is_known) AS is_known FROM placed GROUP BY utid) AS affinity
  ON affinity.utid = used.utid
LEFT JOIN better ON better.utid = used.utid
LEFT JOIN shared ON shared.utid = used.utid
ORDER BY used.trace_id, used.run_ns DESC, used.utid;
