-- Each continuation of a thread on another CPU, and how long it was on the CPU before: from the move
-- to that CPU, running or not. The first move of a thread, and one before which records may be lost,
-- has no time.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  slice AS (
    SELECT s.trace_id, s.utid, s.ts, s.dur, s.cpu, s.prev_cpu
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    SEMI JOIN who ON who.utid = s.utid
    WHERE NOT s.is_idle AND s.ts >= span.start_ns AND s.ts < span.end_ns
  ),
  -- Moves, and slices before which it is not known where the thread ran, because of lost records.
  edge AS (
    SELECT *, coalesce(prev_cpu <> cpu, FALSE) AS is_move
    FROM slice
    WHERE prev_cpu IS DISTINCT FROM cpu
  ),
  -- Few slices are near a move: the running time of the others is summed up in bins of the window.
  bin AS (SELECT *, greatest(1, dur_ns // 16384) AS width_ns FROM span),
  move AS MATERIALIZED (
    SELECT DISTINCT edge.utid, edge.ts, edge.ts // bin.width_ns AS number
    FROM edge
    JOIN bin ON bin.trace_id = edge.trace_id
    WHERE edge.is_move
  ),
  ran AS (
    SELECT utid, min(ts) AS ts, sum(dur) AS run_ns
    FROM (
      SELECT
        s.utid,
        s.ts,
        s.dur,
        s.ts // bin.width_ns AS number,
        (s.utid, s.ts // bin.width_ns) IN (SELECT utid, number FROM move) AS is_near,
      FROM sched_slice AS s
      JOIN bin ON bin.trace_id = s.trace_id
      SEMI JOIN move ON move.utid = s.utid
      WHERE NOT s.is_idle AND s.ts >= bin.start_ns AND s.ts < bin.end_ns
    )
    GROUP BY utid, number, CASE WHEN is_near THEN ts END
  ),
  -- A sum for each move instead of one up to each slice: a thread may have millions of slices. Behind
  -- an edge that is no move, nothing is timed.
  spent AS (
    SELECT move.utid, move.ts, sum(ran.run_ns)::BIGINT AS run_ns
    FROM ran
    ASOF JOIN move ON move.utid = ran.utid AND move.ts <= ran.ts
    GROUP BY move.utid, move.ts
  ),
  since AS (
    SELECT
      edge.*,
      lag(edge.is_move) OVER own AS is_timed,
      lag(edge.ts) OVER own AS from_ns,
      lag(spent.run_ns) OVER own AS run_ns,
    FROM edge
    LEFT JOIN spent ON spent.utid = edge.utid AND spent.ts = edge.ts
    -- At the same time as the next one, a slice has no length; the first one has no CPU before it.
    WINDOW own AS (PARTITION BY edge.utid ORDER BY edge.ts, edge.dur, edge.is_move)
  )
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- When it continued on another CPU, ns. (time)
  ts,
  -- CPU it ran on before.
  prev_cpu,
  -- CPU it continued on.
  cpu,
  -- Time since it came to prev_cpu, ns; null if unknown. (no bounds)
  CASE WHEN is_timed THEN ts - from_ns END AS after_ns,
  -- Its running time in after_ns, ns. (no bounds)
  CASE WHEN is_timed THEN CASE WHEN from_ns < ts THEN run_ns ELSE 0 END END AS run_ns,
FROM since
WHERE is_move
ORDER BY trace_id, utid, ts, dur;
