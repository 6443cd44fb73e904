-- Which threads ran at the same time on two siblings of a core, each pair once. The time is the
-- same for both; it does not show which of them was slowed down.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only pairs with a thread of a process of this name; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, NULL)),
  pair AS (
    SELECT
      s.trace_id,
      -- Interrupt work has no thread and comes second.
      coalesce(least(s.utid, s.other_utid), s.utid, s.other_utid) AS one,
      CASE WHEN s.utid IS NOT NULL AND s.other_utid IS NOT NULL
        THEN greatest(s.utid, s.other_utid) END AS other,
      sum(clipped_ns(s.ts, s.dur, start_ns, end_ns))::BIGINT AS ns,
      count(*) AS pieces,
    FROM sibling_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    WHERE s.ts < end_ns AND s.ts + s.dur > start_ns
    GROUP BY ALL
  )
SELECT
  -- Recording.
  pair.trace_id,
  -- Process of the first thread; null if not recorded, or interrupt work on both.
  a.process,
  -- Name of the first thread; null: interrupt work on both.
  a.thread,
  -- Its thread id.
  a.tid,
  -- The first thread, unique in the database.
  pair.one AS utid,
  -- Process of the second thread; null if not recorded, or interrupt work.
  b.process AS other_process,
  -- Name of the second thread; null: interrupt work.
  b.thread AS other_thread,
  -- Its thread id.
  b.tid AS other_tid,
  -- The second thread, unique in the database; null: interrupt work.
  pair.other AS other_utid,
  -- Time in which both ran, ns. (at least)
  pair.ns,
  -- Separate periods that make up this time.
  pair.pieces,
FROM pair
LEFT JOIN who AS a ON a.utid = pair.one
LEFT JOIN who AS b ON b.utid = pair.other
WHERE p_process IS NULL
  OR pair.one IN (SELECT utid FROM thread_with_process(p_trace_id, p_process))
  OR pair.other IN (SELECT utid FROM thread_with_process(p_trace_id, p_process))
ORDER BY pair.trace_id, pair.ns DESC, pair.one, pair.other;
