-- Priority boosts of each thread: slices above its base priority, and the recorded changes of
-- priority. Only threads with a base priority. A boost decays in steps at the end of a quantum.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (
    SELECT w.*, t.base_priority, is_windows_source(trace.source) AS higher_wins
    FROM thread_with_process(p_trace_id, p_process) AS w
    JOIN thread AS t ON t.utid = w.utid
    JOIN trace ON trace.trace_id = w.trace_id
    WHERE t.base_priority IS NOT NULL
  ),
  -- A recorded change of the base priority applies from then on.
  base AS (
    SELECT utid, ts, new_priority AS base_priority
    FROM priority_change
    WHERE kind = 'base' AND new_priority IS NOT NULL
    UNION ALL
    SELECT
      who.utid,
      -9223372036854775807,
      coalesce(arg_min(c.old_priority, c.ts), any_value(who.base_priority)),
    FROM who
    LEFT JOIN priority_change AS c
      ON c.utid = who.utid AND c.kind = 'base' AND c.old_priority IS NOT NULL
    GROUP BY who.utid
  ),
  slice AS (
    SELECT
      who.utid,
      clipped_ns(s.ts, s.dur, span.start_ns, span.end_ns) AS run_ns,
      CASE WHEN who.higher_wins THEN s.priority - b.base_priority ELSE b.base_priority - s.priority
      END AS above,
      s.ts >= span.start_ns AND NOT s.left_censored AS begins,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    JOIN who ON who.utid = s.utid
    ASOF JOIN base AS b ON b.utid = s.utid AND b.ts <= s.ts
    WHERE s.ts <= span.end_ns AND s.ts + s.dur >= span.start_ns
  ),
  ran AS (
    SELECT
      utid,
      sum(run_ns)::BIGINT AS run_ns,
      coalesce(sum(run_ns) FILTER (WHERE above > 0), 0)::BIGINT AS boosted_ns,
      count(*) FILTER (WHERE above > 0 AND begins) AS boosted_slices,
      count(*) FILTER (WHERE begins) AS switches_in,
      max(above) FILTER (WHERE above > 0) AS highest,
    FROM slice
    GROUP BY utid
  ),
  changed AS (
    SELECT
      c.utid,
      count(*) FILTER (
        WHERE CASE WHEN who.higher_wins THEN c.new_priority > c.old_priority
          ELSE c.new_priority < c.old_priority END
      ) AS raised,
      count(*) FILTER (
        WHERE CASE WHEN who.higher_wins THEN c.new_priority < c.old_priority
          ELSE c.new_priority > c.old_priority END
      ) AS lowered,
    FROM priority_change AS c
    JOIN span ON span.trace_id = c.trace_id
    JOIN who ON who.utid = c.utid
    WHERE c.kind = 'dynamic' AND c.ts BETWEEN span.start_ns AND span.end_ns
    GROUP BY c.utid
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
  -- Base priority.
  who.base_priority,
  -- Running time, ns. (at least)
  ran.run_ns,
  -- Part of run_ns above the base priority, ns. (at least)
  ran.boosted_ns,
  -- Switch-ins above the base priority.
  ran.boosted_slices,
  -- All switch-ins.
  ran.switches_in,
  -- Largest boost above its base priority; null if there was none.
  ran.highest,
  -- Recorded boosts; null if no priority change of it is recorded.
  changed.raised,
  -- Recorded decay steps; null if no priority change of it is recorded.
  changed.lowered,
FROM ran
JOIN who ON who.utid = ran.utid
LEFT JOIN changed ON changed.utid = who.utid
WHERE ran.boosted_slices > 0 OR ran.boosted_ns > 0 OR changed.raised > 0 OR changed.lowered > 0
ORDER BY who.trace_id, boosted_ns DESC, who.utid;
