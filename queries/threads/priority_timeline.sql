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
  part AS (
    SELECT trace_id, utid, priority, ts, ts + dur AS end_ns, false AS is_ready
    FROM sched_slice
    WHERE NOT is_idle
    UNION ALL
    SELECT trace_id, utid, priority, ts - ready_ns, ts, true
    FROM sched_slice
    WHERE NOT is_idle AND ready_ns > 0
  ),
  inside AS NOT MATERIALIZED (
    SELECT
      part.trace_id,
      part.priority,
      part.is_ready,
      span.start_ns,
      span.end_ns,
      span.width_ns,
      greatest(part.ts, span.start_ns) - span.start_ns AS from_ns,
      least(part.end_ns, span.end_ns) - span.start_ns AS to_ns,
      from_ns // span.width_ns AS first_col,
      (to_ns - 1) // span.width_ns AS last_col,
    FROM part
    JOIN span ON span.trace_id = part.trace_id
    WHERE (p_process IS NULL OR part.utid IN (SELECT utid FROM who))
      AND part.ts < part.end_ns
      AND part.ts < span.end_ns
      AND part.end_ns > span.start_ns
  ),
  -- Most are in one bin: a list of bins for each of them would take half of the time.
  cut AS NOT MATERIALIZED (
    SELECT * EXCLUDE (last_col) RENAME (first_col AS col)
    FROM inside
    WHERE first_col = last_col
    UNION ALL
    SELECT * EXCLUDE (first_col, last_col), unnest(range(first_col, last_col + 1)) AS col
    FROM inside
    WHERE first_col < last_col
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
  coalesce(
    sum(overlap_ns(from_ns, to_ns, col * width_ns, (col + 1) * width_ns))
      FILTER (WHERE NOT is_ready),
    0
  ) / least(any_value(width_ns), any_value(end_ns - cut.start_ns) - col * any_value(width_ns))
    AS running,
  -- Mean number of ready threads.
  coalesce(
    sum(overlap_ns(from_ns, to_ns, col * width_ns, (col + 1) * width_ns)) FILTER (WHERE is_ready),
    0
  ) / least(any_value(width_ns), any_value(end_ns - cut.start_ns) - col * any_value(width_ns))
    AS ready,
FROM cut
GROUP BY trace_id, priority, col
ORDER BY trace_id, priority, col;
