-- Wall time of the parallel sections of each worker pool by the number of workers that took part.
-- If more of them no longer shorten it, another worker does not help.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name; null for all.
-- p_least [3]: smallest number of threads in a pool.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (
    SELECT *, regexp_replace(thread, '[0-9]+', '#', 'g') AS pool
    FROM thread_with_process(p_trace_id, p_process)
    QUALIFY count(*) OVER (
      PARTITION BY trace_id, upid, regexp_replace(thread, '[0-9]+', '#', 'g')
    ) >= p_least
  ),
  part AS (
    SELECT
      who.trace_id, who.process, who.upid, who.pool, sums.workers, sums.sections, sums.dur_ns,
      sums.p50_ns, sums.run_ns, sums.ready_ns, sums.most_running,
    FROM parallel_section_sum AS sums
    JOIN span
      ON span.trace_id = sums.trace_id AND span.start_ns = sums.start_ns
      AND span.end_ns = sums.end_ns
    JOIN who ON who.utid = sums.utid
    -- Neither smaller pools nor pools within a group (p_process with a colon) are in the table.
    WHERE p_least >= 3 AND coalesce(p_process NOT LIKE '%:%', true)
    UNION ALL BY NAME
    SELECT
      trace_id,
      process,
      upid,
      pool,
      workers,
      count(*) AS sections,
      sum(dur)::BIGINT AS dur_ns,
      quantile_disc(dur, 0.5) AS p50_ns,
      sum(run_ns)::BIGINT AS run_ns,
      sum(ready_ns)::BIGINT AS ready_ns,
      max(most_running) AS most_running,
    FROM parallel_section(
      p_trace_id, p_from_ns, p_to_ns, p_process, p_least,
      p_least >= 3 AND coalesce(p_process NOT LIKE '%:%', true)
    )
    GROUP BY trace_id, process, upid, pool, workers
  )
SELECT
  -- Recording.
  trace_id,
  -- Name of the process; null if not recorded.
  process,
  -- Process, unique in the database.
  upid,
  -- Name of the threads, with # for digits.
  pool,
  -- Workers that ran in a section.
  workers,
  -- Sections with this many workers.
  sections,
  -- Sum of their lengths, ns. (no bounds)
  dur_ns,
  -- Their mean length, ns. (no bounds)
  (dur_ns / sections)::BIGINT AS mean_ns,
  -- Median length, ns. (no bounds)
  p50_ns,
  -- Mean running time of all their workers, ns. (no bounds)
  (run_ns / sections)::BIGINT AS run_mean_ns,
  -- Mean ready time of all their workers, ns. (no bounds)
  (ready_ns / sections)::BIGINT AS ready_mean_ns,
  -- Mean number of running workers: running time divided by length.
  run_ns / nullif(dur_ns, 0) AS parallel,
  -- Most of them running at once.
  most_running,
FROM part
ORDER BY trace_id, upid, pool, workers;
