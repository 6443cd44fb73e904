-- Mean number of running and ready threads of each priority over the window, in p_columns time
-- bins; bins in which a priority has none are left out. A slice and the ready time before it count
-- at the priority of its switch-in.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_columns [2000]: number of time bins in the window.
WITH
  span AS (
    SELECT *, greatest(1, ceil(dur_ns / p_columns)::BIGINT) AS width_ns
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
    WHERE dur_ns > 0
  ),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  -- Ready from `from_ns` to `in_ns`, running from there to `to_ns`, since the start of the window.
  inside AS NOT MATERIALIZED (
    SELECT
      slice.trace_id,
      slice.priority,
      span.width_ns,
      greatest(slice.ts - coalesce(slice.ready_ns, 0), span.start_ns) - span.start_ns AS from_ns,
      least(slice.ts + slice.dur, span.end_ns) - span.start_ns AS to_ns,
      least(greatest(slice.ts, span.start_ns) - span.start_ns, to_ns) AS in_ns,
    FROM sched_slice AS slice
    JOIN span ON span.trace_id = slice.trace_id
    WHERE NOT slice.is_idle
      AND (p_process IS NULL OR slice.utid IN (SELECT utid FROM who))
      AND slice.ts - coalesce(slice.ready_ns, 0) < least(slice.ts + slice.dur, span.end_ns)
      AND slice.ts + slice.dur > span.start_ns
  ),
  -- Slices with their times in the same bins need only sums of them.
  alike AS (
    SELECT
      trace_id,
      priority,
      from_ns // width_ns AS first_col,
      in_ns // width_ns AS in_col,
      (to_ns - 1) // width_ns AS last_col,
      count(*)::HUGEINT AS slices,
      sum(from_ns) AS from_ns,
      sum(in_ns) AS in_ns,
      sum(to_ns) AS to_ns,
    FROM inside
    GROUP BY ALL
  ),
  -- The same times as seen from each bin: earlier ones at its start, later ones at its end.
  cut AS (
    SELECT
      trace_id,
      priority,
      span.start_ns + col * width_ns AS start_ns,
      least(width_ns, span.dur_ns - col * width_ns) AS dur_ns,
      CASE WHEN col > first_col THEN slices * col * width_ns ELSE from_ns END AS from_ns,
      CASE
        WHEN col < in_col THEN slices * (col + 1) * width_ns
        WHEN col > in_col THEN slices * col * width_ns
        ELSE in_ns
      END AS in_ns,
      CASE WHEN col < last_col THEN slices * (col + 1) * width_ns ELSE to_ns END AS to_ns,
    FROM (SELECT *, unnest(range(first_col, last_col + 1)) AS col FROM alike)
    JOIN span USING (trace_id)
  )
SELECT
  -- Recording.
  trace_id,
  -- Priority as recorded; null if not recorded.
  priority,
  -- Start of the time bin, ns. (time)
  start_ns,
  -- Its length, ns. (exact)
  dur_ns,
  -- Mean number of running threads.
  sum(to_ns - in_ns) / dur_ns AS running,
  -- Mean number of ready threads.
  sum(in_ns - from_ns) / dur_ns AS ready,
FROM cut
GROUP BY trace_id, priority, start_ns, dur_ns
ORDER BY trace_id, priority, start_ns;
