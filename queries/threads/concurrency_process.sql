-- How many threads of each process ran at once: time at each number, without 0.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name, or with a thread in this group; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  -- Processes of the same name count together; a number replaces the name while there are many
  -- rows.
  who AS (
    SELECT utid, process, dense_rank() OVER (ORDER BY process) AS place
    FROM thread_with_process(p_trace_id, NULL)
  ),
  named AS (
    SELECT DISTINCT place, process
    FROM who
    WHERE p_process IS NULL
      OR process IN (SELECT process FROM thread_with_process(p_trace_id, p_process))
  ),
  summary AS (
    SELECT sums.trace_id, who.place, sums.running, sums.ns
    FROM concurrency_process_sum AS sums
    JOIN span
      ON span.trace_id = sums.trace_id AND span.start_ns = sums.start_ns
      AND span.end_ns = sums.end_ns
    JOIN who ON who.utid = sums.utid
  ),
  -- Recordings without a summary of this window.
  left_over AS (FROM span ANTI JOIN summary USING (trace_id)),
  ran AS (
    SELECT
      c.trace_id,
      who.place,
      greatest(c.ts, start_ns) AS from_ns,
      least(c.ts + c.dur, end_ns) AS to_ns,
    FROM cpu_state AS c
    JOIN left_over AS span ON span.trace_id = c.trace_id
    JOIN who ON who.utid = c.utid
    WHERE c.state = 'thread' AND c.ts < end_ns AND c.ts + c.dur > start_ns
  ),
  -- If the state of every CPU is known, so are the running threads.
  unclear AS (
    SELECT
      trace_id,
      sum(clipped_ns(ts, dur, start_ns, end_ns))::BIGINT AS ns,
    FROM concurrency_slice
    JOIN span USING (trace_id)
    WHERE unknown > 0 AND ts < end_ns AND ts + dur > start_ns
    GROUP BY trace_id
  ),
  -- A thread that gives its CPU to another of the process changes nothing.
  step AS (
    SELECT trace_id, place, ts, sum(step_by)::BIGINT AS step_by,
    FROM (
      SELECT trace_id, place, from_ns AS ts, 1::TINYINT AS step_by FROM ran
      UNION ALL
      SELECT trace_id, place, to_ns, (-1)::TINYINT FROM ran
    )
    GROUP BY trace_id, place, ts
    HAVING sum(step_by) <> 0
  ),
  -- The steps of a process add up to 0, so the sum need not begin again with each process; the last
  -- one of a process is followed by no time with a thread running. One sum is 10 times as fast.
  level AS (
    SELECT
      trace_id,
      place,
      sum(step_by) OVER sofar AS running,
      lead(ts) OVER sofar - ts AS ns,
    FROM step
    WINDOW sofar AS (
      ORDER BY trace_id, place, ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
  ),
  spent AS (
    FROM summary
    UNION ALL BY NAME
    SELECT trace_id, place, running, sum(ns)::BIGINT AS ns
    FROM level
    WHERE running > 0 AND ns > 0
    GROUP BY trace_id, place, running
  ),
  -- A thread without a recorded process may belong to any.
  orphaned AS (
    SELECT trace_id, sum(running * ns)::BIGINT AS ns
    FROM spent
    WHERE place IN (SELECT place FROM who WHERE process IS NULL)
    GROUP BY trace_id
  ),
  unsure AS (
    SELECT trace_id, sum(ns)::BIGINT AS ns
    FROM (FROM unclear UNION ALL FROM orphaned)
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  spent.trace_id,
  -- Name of the process; null: threads whose process is not recorded.
  named.process,
  -- Threads of this process that ran at once.
  spent.running::INTEGER AS running,
  -- Time with exactly this many running, ns. (from low_ns to high_ns)
  spent.ns,
  -- ns without the time in which the state of some CPU, or the process of a running thread, is
  -- unknown, ns. (bound)
  greatest(0, spent.ns - coalesce(unsure.ns, 0))::BIGINT AS low_ns,
  -- ns plus all such time, ns. (bound)
  (spent.ns + coalesce(unsure.ns, 0))::BIGINT AS high_ns,
  -- ns as a share of the window, percent. (no bounds)
  100.0 * spent.ns / nullif(span.dur_ns, 0) AS pct,
FROM spent
JOIN span ON span.trace_id = spent.trace_id
JOIN named ON named.place = spent.place
LEFT JOIN unsure ON unsure.trace_id = spent.trace_id
ORDER BY spent.trace_id, named.process, spent.running;
