-- Parallel sections of each worker pool (at least p_least threads of a process whose names differ
-- only in digits): from the moment one worker becomes runnable until none is. Sections that start
-- in the window, not clipped.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name; null for all.
-- p_least [3]: smallest number of threads in a pool.
-- p_unsummed [false]: only recordings of which parallel_section_sum has no rows for this window.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  summed AS (
    SELECT sums.trace_id
    FROM parallel_section_sum AS sums
    JOIN span
      ON span.trace_id = sums.trace_id AND span.start_ns = sums.start_ns
      AND span.end_ns = sums.end_ns
    WHERE p_unsummed
  ),
  who AS (
    SELECT *, regexp_replace(thread, '[0-9]+', '#', 'g') AS pool
    FROM thread_with_process(p_trace_id, p_process)
    WHERE upid IS NOT NULL AND thread IS NOT NULL
      AND trace_id NOT IN (SELECT trace_id FROM summed)
    QUALIFY count(*) OVER (
      PARTITION BY trace_id, upid, regexp_replace(thread, '[0-9]+', '#', 'g')
    ) >= p_least
  ),
  pool AS (
    SELECT *, dense_rank() OVER (ORDER BY trace_id, upid, pool) AS place FROM who
  ),
  -- States of length 0 are no work, and would make sections of length 0.
  spell AS (
    SELECT p.place, t.utid, t.ts, t.ts + t.dur AS end_ns, t.state = 'running' AS runs
    FROM thread_state AS t
    JOIN pool AS p ON p.utid = t.utid
    WHERE t.state IN ('running', 'ready') AND t.dur > 0
  ),
  edge AS (
    SELECT
      place,
      ts,
      sum(live) AS live,
      sum(live) FILTER (WHERE runs) AS running,
    FROM (
      SELECT place, unnest([ts, end_ns]) AS ts, unnest([1, -1]) AS live, runs FROM spell
    )
    GROUP BY place, ts
  ),
  level AS (
    SELECT
      place,
      ts,
      lead(ts) OVER sofar - ts AS dur,
      sum(live) OVER sofar AS live,
      sum(coalesce(running, 0)) OVER sofar AS running,
    FROM edge
    WINDOW sofar AS (PARTITION BY place ORDER BY ts)
  ),
  numbered AS (
    SELECT
      *,
      count(CASE WHEN live = 0 THEN 1 END) OVER (
        PARTITION BY place ORDER BY ts ROWS UNBOUNDED PRECEDING
      ) AS section,
    FROM level
  ),
  section AS (
    SELECT
      place,
      section,
      min(ts) AS ts,
      sum(dur)::BIGINT AS dur,
      sum(running * dur)::BIGINT AS run_ns,
      sum((live - running) * dur)::BIGINT AS ready_ns,
      max(running)::INTEGER AS most_running,
    FROM numbered
    WHERE live > 0 AND dur > 0
    GROUP BY place, section
  ),
  -- Which workers took part: each slice starts at an edge, and the edge has its section.
  part AS (
    SELECT n.place, n.section, count(DISTINCT spell.utid) AS workers
    FROM spell
    JOIN numbered AS n ON n.place = spell.place AND n.ts = spell.ts
    WHERE spell.runs
    GROUP BY n.place, n.section
  ),
  named AS (
    SELECT DISTINCT place, trace_id, process, upid, pool FROM pool
  )
SELECT
  -- Recording.
  named.trace_id,
  -- Name of the process; null if not recorded.
  named.process,
  -- Process, unique in the database.
  named.upid,
  -- Name of the threads, with # for digits.
  named.pool,
  -- Start, ns. (time)
  section.ts,
  -- Length, ns. (no bounds)
  section.dur,
  -- Workers that ran in it.
  coalesce(part.workers, 0) AS workers,
  -- Most of them running at once.
  section.most_running,
  -- Their running time in it, ns. (no bounds)
  section.run_ns,
  -- Their ready time in it, ns. (no bounds)
  section.ready_ns,
FROM section
JOIN named ON named.place = section.place
JOIN span ON span.trace_id = named.trace_id
LEFT JOIN part ON part.place = section.place AND part.section = section.section
WHERE section.ts >= span.start_ns AND section.ts < span.end_ns
ORDER BY named.trace_id, named.upid, named.pool, section.ts;
