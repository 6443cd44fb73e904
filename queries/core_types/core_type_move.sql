-- Each move of a thread from a P core to an E core, and how long it took to come back: from the
-- first slice on an E or LP-E core to the next switch-in on a P core. Lists moves that start in the
-- window and follows them past its end. Uniform cores (U) count as P; slices on cores of unknown
-- type neither start nor end a move, nor do slices of length zero.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (FROM topology(p_trace_id)),
  -- Only recordings with an E core: without one, no thread can move to it.
  hybrid AS (SELECT DISTINCT trace_id FROM place WHERE core_type IN ('E', 'LP-E')),
  spell AS (
    SELECT
      t.trace_id,
      t.utid,
      t.ts,
      t.dur,
      t.state,
      t.cpu,
      t.state = 'running' AND coalesce(place.core_type IN ('P', 'U'), false) AS on_p,
      t.state = 'running' AND coalesce(place.core_type IN ('E', 'LP-E'), false) AS on_e,
    FROM thread_state AS t
    JOIN hybrid USING (trace_id)
    LEFT JOIN place
      ON t.state = 'running' AND place.trace_id = t.trace_id AND place.cpu = t.cpu
      AND t.ts >= place.from_ns AND t.ts < place.to_ns
    -- The other rows cover a thread's life without overlap, so the start time orders them
    -- completely.
    WHERE t.dur > 0
  ),
  numbered AS (
    SELECT
      *,
      count(CASE WHEN on_p THEN 1 END) OVER sofar AS p_slices,
    FROM spell
    WINDOW sofar AS (
      PARTITION BY utid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
  ),
  away AS (
    SELECT
      *,
      min(ts) FILTER (WHERE on_e) OVER (PARTITION BY utid, p_slices) AS left_ns,
    FROM numbered
    WHERE p_slices > 0
  ),
  trip AS (
    SELECT
      trace_id,
      utid,
      p_slices,
      any_value(left_ns) AS left_ns,
      arg_min(cpu, ts) FILTER (WHERE on_e) AS e_cpu,
      arg_max(cpu, ts) FILTER (WHERE on_p) AS p_cpu,
      max(ts + dur) AS seen_ns,
      min(ts) FILTER (WHERE on_p) AS p_ns,
      sum(dur) FILTER (WHERE state = 'running' AND NOT on_p AND ts >= left_ns) AS run_ns,
      sum(dur) FILTER (WHERE state = 'ready' AND ts >= left_ns) AS ready_ns,
      sum(dur) FILTER (WHERE state = 'unknown' AND ts >= left_ns) AS unknown_ns,
    FROM away
    GROUP BY trace_id, utid, p_slices
  ),
  whole AS (
    SELECT
      *,
      lead(p_ns) OVER (PARTITION BY utid ORDER BY p_slices) AS back_ns,
    FROM trip
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
  -- Logical CPU (P) it came from.
  p_cpu AS from_cpu,
  -- Logical CPU (E or LP-E) it went to.
  e_cpu AS to_cpu,
  -- Switch-in on the E core, ns. (time)
  left_ns,
  -- Next switch-in on a P core, ns; null if there is none. (time)
  back_ns,
  -- Time until it returned to a P core or, if it did not, until the end of its last recorded state,
  -- ns. (no bounds)
  (coalesce(back_ns, seen_ns) - left_ns)::BIGINT AS away_ns,
  -- Part of away_ns running, ns. (no bounds)
  run_ns::BIGINT AS run_ns,
  -- Part of away_ns ready and not running, ns. (no bounds)
  coalesce(ready_ns, 0)::BIGINT AS ready_ns,
  -- Part of away_ns unknown because events were lost, ns. (no bounds)
  coalesce(unknown_ns, 0)::BIGINT AS unknown_ns,
  -- True if it did not come back before the recording (or its life) ended.
  back_ns IS NULL AS censored,
FROM whole
JOIN span ON span.trace_id = whole.trace_id
JOIN who ON who.utid = whole.utid
WHERE left_ns BETWEEN span.start_ns AND span.end_ns
ORDER BY who.trace_id, left_ns, who.utid;
