-- What each logical CPU did over the window, reduced to time bins: each bin shows the state or
-- thread with the most time in it, and equal neighbors are joined into one row.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the window of analysis_span.
-- p_to_ns: end of the window; null for the window of analysis_span.
-- p_columns [2000]: time bins per CPU; as many as the window has nanoseconds returns every slice.
WITH span AS (
  SELECT trace_id, start_ns, dur_ns, greatest(1, ceil(dur_ns / p_columns)::BIGINT) AS width_ns,
  FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
  WHERE dur_ns > 0
),
piece AS (
  SELECT
    c.trace_id,
    c.cpu,
    c.state,
    c.utid,
    s.width_ns,
    greatest(c.ts - s.start_ns, 0) AS begin_ns,
    least(c.ts + c.dur - s.start_ns, s.dur_ns) AS end_ns,
    begin_ns // s.width_ns AS first_column,
    (end_ns - 1) // s.width_ns AS last_column,
  FROM cpu_state AS c
  JOIN span AS s USING (trace_id)
  WHERE c.dur > 0 AND c.ts < s.start_ns + s.dur_ns AND c.ts + c.dur > s.start_ns
),
-- A piece fills every bin between its first and its last; only in those two can another piece have
-- more time.
contested AS (
  SELECT trace_id, cpu, first_column AS col, state, utid,
    least(end_ns, (first_column + 1) * width_ns) - begin_ns AS dur,
  FROM piece
  UNION ALL
  SELECT trace_id, cpu, last_column, state, utid, end_ns - last_column * width_ns,
  FROM piece
  WHERE last_column > first_column
),
summed AS (
  SELECT trace_id, cpu, col, state, utid, sum(dur) AS dur,
  FROM contested
  GROUP BY ALL
),
winner AS (
  SELECT trace_id, cpu, col, 1 AS columns, state, utid,
  FROM summed
  QUALIFY row_number() OVER (PARTITION BY trace_id, cpu, col ORDER BY dur DESC, state, utid) = 1
  UNION ALL
  SELECT trace_id, cpu, first_column + 1, last_column - first_column - 1, state, utid,
  FROM piece
  WHERE last_column > first_column + 1
),
marked AS (
  SELECT *,
    (lag(state) OVER along IS DISTINCT FROM state
      OR lag(utid) OVER along IS DISTINCT FROM utid
      OR lag(col + columns) OVER along IS DISTINCT FROM col)::INTEGER AS begins,
  FROM winner
  WINDOW along AS (PARTITION BY trace_id, cpu ORDER BY col)
),
numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY trace_id, cpu ORDER BY col) AS run_no,
  FROM marked
),
joined AS (
  SELECT trace_id, cpu, run_no, min(col) AS col, max(col + columns) AS end_col,
    any_value(state) AS state, any_value(utid) AS utid,
  FROM numbered
  GROUP BY trace_id, cpu, run_no
)
SELECT
  -- Recording.
  j.trace_id,
  -- Logical CPU.
  j.cpu,
  -- Start, at the edge of a time bin. (time)
  (s.start_ns + j.col * s.width_ns)::BIGINT AS start_ns,
  -- Length, in whole time bins; the last bin ends with the window. (no bounds)
  (least(j.end_col * s.width_ns, s.dur_ns) - j.col * s.width_ns)::BIGINT AS dur_ns,
  -- State with the most time in each of its bins: thread, interrupt, idle, unknown or offline.
  j.state,
  -- Thread; null unless the state is thread.
  j.utid,
  -- Its thread id.
  t.tid,
  -- Its name.
  t.name AS thread,
  -- Name of its process.
  p.name AS process,
FROM joined AS j
JOIN span AS s USING (trace_id)
LEFT JOIN thread AS t ON t.utid = j.utid
LEFT JOIN process AS p ON p.upid = t.upid
ORDER BY j.trace_id, j.cpu, j.col;
