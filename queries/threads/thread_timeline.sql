-- What the busiest threads did over the window, reduced to time bins: each bin shows the state with
-- the most time in it, and equal neighbors are joined into one row.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_threads [16]: number of threads per recording, those that ran longest.
-- p_columns [2000]: time bins per thread; as many as the window has nanoseconds returns every
-- state.
WITH
  span AS (
    SELECT trace_id, start_ns, dur_ns, greatest(1, ceil(dur_ns / p_columns)::BIGINT) AS width_ns,
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
    WHERE dur_ns > 0
  ),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  ran AS (
    SELECT
      s.trace_id,
      s.utid,
      sum(clipped_ns(s.ts, s.dur, span.start_ns, span.start_ns + span.dur_ns))::BIGINT AS run_ns,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    WHERE (p_process IS NULL OR s.utid IN (SELECT utid FROM who))
      AND NOT s.is_idle AND s.ts < span.start_ns + span.dur_ns AND s.ts + s.dur > span.start_ns
    GROUP BY s.trace_id, s.utid
    QUALIFY row_number() OVER (PARTITION BY s.trace_id ORDER BY run_ns DESC, s.utid) <= p_threads
  ),
  place AS (FROM topology(p_trace_id)),
  piece AS (
    SELECT
      t.trace_id,
      t.utid,
      CASE
        WHEN t.state = 'running' AND place.core_type IN ('P', 'U') THEN 'runs_p'
        WHEN t.state = 'running' AND place.core_type IN ('E', 'LP-E') THEN 'runs_e'
        WHEN t.state = 'running' THEN 'runs'
        WHEN t.state IN ('ready', 'waiting') THEN t.state
        ELSE 'unknown'
      END AS state,
      span.width_ns,
      greatest(t.ts - span.start_ns, 0) AS begin_ns,
      least(t.ts + t.dur - span.start_ns, span.dur_ns) AS end_ns,
      begin_ns // span.width_ns AS first_column,
      (end_ns - 1) // span.width_ns AS last_column,
    FROM thread_state AS t
    JOIN span ON span.trace_id = t.trace_id
    SEMI JOIN ran ON ran.utid = t.utid
    LEFT JOIN place
      ON t.state = 'running' AND place.trace_id = t.trace_id AND place.cpu = t.cpu
      AND t.ts >= place.from_ns AND t.ts < place.to_ns
    WHERE t.dur > 0 AND t.ts < span.start_ns + span.dur_ns AND t.ts + t.dur > span.start_ns
  ),
  -- A piece fills every bin between its first and its last; only in those two can another piece
  -- have more time.
  contested AS (
    SELECT trace_id, utid, first_column AS col, state,
      least(end_ns, (first_column + 1) * width_ns) - begin_ns AS dur,
    FROM piece
    UNION ALL
    SELECT trace_id, utid, last_column, state, end_ns - last_column * width_ns
    FROM piece
    WHERE last_column > first_column
  ),
  winner AS (
    SELECT trace_id, utid, col, 1 AS columns, state
    FROM contested
    GROUP BY trace_id, utid, col, state
    QUALIFY row_number() OVER (PARTITION BY utid, col ORDER BY sum(dur) DESC, state) = 1
    UNION ALL
    SELECT trace_id, utid, first_column + 1, last_column - first_column - 1, state
    FROM piece
    WHERE last_column > first_column + 1
  ),
  marked AS (
    SELECT
      *,
      (
        lag(state) OVER along IS DISTINCT FROM state
        OR lag(col + columns) OVER along IS DISTINCT FROM col
      )::INTEGER AS begins,
    FROM winner
    WINDOW along AS (PARTITION BY utid ORDER BY col)
  ),
  joined AS (
    SELECT
      trace_id,
      utid,
      min(col) AS col,
      max(col + columns) AS end_col,
      any_value(state) AS state,
    FROM (SELECT *, sum(begins) OVER (PARTITION BY utid ORDER BY col) AS run_no FROM marked)
    GROUP BY trace_id, utid, run_no
  )
SELECT
  -- Recording.
  j.trace_id,
  -- Name of the process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  j.utid,
  -- Running time of the thread in the window, ns. (at least)
  ran.run_ns,
  -- Start, at the edge of a time bin. (time)
  (span.start_ns + j.col * span.width_ns)::BIGINT AS start_ns,
  -- Length, in whole time bins; the last bin ends with the window. (no bounds)
  (least(j.end_col * span.width_ns, span.dur_ns) - j.col * span.width_ns)::BIGINT AS dur_ns,
  -- State with the most time in each of its bins: runs_p, runs_e, runs (core type unknown), ready,
  -- waiting or unknown.
  j.state,
FROM joined AS j
JOIN span ON span.trace_id = j.trace_id
JOIN who ON who.utid = j.utid
JOIN ran ON ran.utid = j.utid
ORDER BY j.trace_id, ran.run_ns DESC, j.utid, j.col;
