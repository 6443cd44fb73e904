-- Which processes shared cores: each process with itself, with others, and the others among
-- themselves. The three parts sum to all the time in which two siblings were busy.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name, or with a thread in this group; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  named AS (
    SELECT t.utid, coalesce(p.name, '') AS process
    FROM thread AS t
    LEFT JOIN process AS p ON p.upid = t.upid
  ),
  pair AS (
    SELECT
      s.trace_id,
      a.process AS one,
      b.process AS other,
      sum(clipped_ns(s.ts, s.dur, start_ns, end_ns))::BIGINT AS ns,
    FROM sibling_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    LEFT JOIN named AS a ON a.utid = s.utid
    LEFT JOIN named AS b ON b.utid = s.other_utid
    WHERE s.ts < end_ns AND s.ts + s.dur > start_ns
    GROUP BY ALL
  ),
  -- While the state of a CPU is unknown, each pair of siblings of its core may have been busy.
  unclear AS (
    SELECT
      trace_id,
      sum(clipped_ns(ts, dur, start_ns, end_ns) * (online * (online - 1) // 2))::BIGINT
        AS unknown_ns,
    FROM core_state
    JOIN span USING (trace_id)
    WHERE unknown > 0 AND online >= 2 AND ts < end_ns AND ts + dur > start_ns
    GROUP BY trace_id
  ),
  total AS (SELECT trace_id, sum(ns) AS ns FROM pair GROUP BY trace_id),
  side AS (
    SELECT trace_id, one AS process, ns, one IS NOT DISTINCT FROM other AS itself
    FROM pair
    WHERE one IS NOT NULL
    UNION ALL
    SELECT trace_id, other, ns, false
    FROM pair
    WHERE other IS NOT NULL AND one IS DISTINCT FROM other
  ),
  spent AS (
    SELECT
      trace_id,
      process,
      coalesce(sum(ns) FILTER (WHERE itself), 0)::BIGINT AS with_itself_ns,
      coalesce(sum(ns) FILTER (WHERE NOT itself), 0)::BIGINT AS with_others_ns,
    FROM side
    GROUP BY trace_id, process
  )
SELECT
  -- Recording.
  spent.trace_id,
  -- Name of the process; null: threads whose process is not recorded.
  nullif(spent.process, '') AS process,
  -- Time in which two siblings both ran threads of it, ns. (at least; unknown_ns more at most)
  with_itself_ns,
  -- Time in which one of two busy siblings ran a thread of it, the other something else, ns.
  -- (at least; unknown_ns more at most)
  with_others_ns,
  -- Time in which two siblings were busy with other things only, ns.
  -- (at least; unknown_ns more at most)
  (total.ns - with_itself_ns - with_others_ns)::BIGINT AS others_ns,
  -- Core time in which the state of a sibling is unknown, for each pair of siblings, ns. (bound)
  coalesce(unclear.unknown_ns, 0) AS unknown_ns,
FROM spent
JOIN total ON total.trace_id = spent.trace_id
LEFT JOIN unclear ON unclear.trace_id = spent.trace_id
WHERE p_process IS NULL
  OR spent.process IN (SELECT process FROM thread_with_process(p_trace_id, p_process))
ORDER BY spent.trace_id, with_itself_ns + with_others_ns DESC, spent.process;
