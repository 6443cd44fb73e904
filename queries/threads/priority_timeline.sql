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
      span.start_ns,
      span.end_ns,
      span.width_ns,
      greatest(slice.ts - coalesce(slice.ready_ns, 0), span.start_ns) - span.start_ns AS from_ns,
      greatest(slice.ts, span.start_ns) - span.start_ns AS in_ns,
      least(slice.ts + slice.dur, span.end_ns) - span.start_ns AS to_ns,
      from_ns // span.width_ns AS first_col,
      (to_ns - 1) // span.width_ns AS last_col,
    FROM sched_slice AS slice
    JOIN span ON span.trace_id = slice.trace_id
    WHERE NOT slice.is_idle
      AND (p_process IS NULL OR slice.utid IN (SELECT utid FROM who))
      AND slice.ts - coalesce(slice.ready_ns, 0) < least(slice.ts + slice.dur, span.end_ns)
      AND slice.ts + slice.dur > span.start_ns
  ),
  -- Most are in one bin: a list of bins for each of them would take half of the time.
  cut AS NOT MATERIALIZED (
    SELECT
      * EXCLUDE (from_ns, in_ns, to_ns, first_col, last_col),
      first_col AS col,
      to_ns - in_ns AS run_ns,
      in_ns - from_ns AS ready_ns,
    FROM inside
    WHERE first_col = last_col AND in_ns <= to_ns
    UNION ALL
    SELECT
      * EXCLUDE (from_ns, in_ns, to_ns, first_col, last_col),
      greatest(0, overlap_ns(in_ns, to_ns, col * width_ns, (col + 1) * width_ns)),
      greatest(
        0, overlap_ns(from_ns, least(in_ns, to_ns), col * width_ns, (col + 1) * width_ns)
      ),
    FROM (
      SELECT *, unnest(range(first_col, last_col + 1)) AS col
      FROM inside
      WHERE first_col < last_col OR in_ns > to_ns
    )
  )
SELECT
  -- Recording.
  trace_id,
  -- Priority as recorded; null if not recorded.
  priority,
  -- Start of the time bin, ns. (time)
  (any_value(cut.start_ns) + col * any_value(width_ns))::BIGINT AS start_ns,
  -- Its length, ns. (exact)
  least(any_value(width_ns), any_value(end_ns - cut.start_ns) - col * any_value(width_ns))::BIGINT
    AS dur_ns,
  -- Mean number of running threads.
  sum(run_ns)
    / least(any_value(width_ns), any_value(end_ns - cut.start_ns) - col * any_value(width_ns))
    AS running,
  -- Mean number of ready threads.
  sum(ready_ns)
    / least(any_value(width_ns), any_value(end_ns - cut.start_ns) - col * any_value(width_ns))
    AS ready,
FROM cut
GROUP BY trace_id, priority, col
ORDER BY trace_id, priority, col;
