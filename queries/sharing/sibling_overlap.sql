-- How often the logical CPUs of each core were busy at the same time. Busy means running a thread
-- other than the idle thread, or recorded interrupt work. Only time in which at least two CPUs of
-- the core were online and the state of all of them is known counts.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  kind AS (
    SELECT
      trace_id,
      core,
      -- Core type of its lowest CPU, as recorded last.
      arg_min(core_type, (cpu, -from_ns)) AS core_type,
      list_sort(list(DISTINCT cpu)) AS cpus,
    FROM topology(p_trace_id)
    WHERE core IS NOT NULL
    GROUP BY trace_id, core
  ),
  piece AS (
    SELECT
      trace_id,
      core,
      busy,
      threads,
      unknown,
      clipped_ns(ts, dur, start_ns, end_ns) AS ns,
    FROM core_state
    JOIN span USING (trace_id)
    WHERE ts < end_ns AND ts + dur > start_ns AND online >= 2
  ),
  spent AS (
    SELECT
      trace_id,
      core,
      coalesce(sum(ns) FILTER (WHERE unknown = 0 AND busy = 0), 0)::BIGINT AS none_ns,
      coalesce(sum(ns) FILTER (WHERE unknown = 0 AND busy = 1), 0)::BIGINT AS one_ns,
      coalesce(sum(ns) FILTER (WHERE unknown = 0 AND busy >= 2), 0)::BIGINT AS both_ns,
      coalesce(sum(ns) FILTER (WHERE unknown > 0), 0)::BIGINT AS unknown_ns,
      coalesce(sum(ns * threads) FILTER (WHERE unknown = 0), 0)::BIGINT AS thread_ns,
      coalesce(sum(ns * threads) FILTER (WHERE unknown = 0 AND busy >= 2), 0)::BIGINT
        AS shared_thread_ns,
    FROM piece
    GROUP BY trace_id, core
  )
SELECT
  -- Recording.
  trace_id,
  -- Core: the lowest logical CPU number of its siblings.
  core,
  -- Core type; null if unknown.
  core_type,
  -- Its logical CPUs.
  cpus,
  -- Share of the counted time in which none of its CPUs was busy. (no bounds)
  100.0 * none_ns / nullif(none_ns + one_ns + both_ns, 0) AS none_pct,
  -- Share of the counted time in which exactly one was busy. (no bounds)
  100.0 * one_ns / nullif(none_ns + one_ns + both_ns, 0) AS one_pct,
  -- Share of the counted time in which more than one was busy. (no bounds)
  100.0 * both_ns / nullif(none_ns + one_ns + both_ns, 0) AS both_pct,
  -- Share of the time with at least one busy CPU in which more than one was: not diluted by idle
  -- time. (from shared_of_busy_low_pct to shared_of_busy_high_pct)
  100.0 * both_ns / nullif(one_ns + both_ns, 0) AS shared_of_busy_pct,
  -- The same if exactly one was busy in all unknown time, percent. (bound)
  100.0 * both_ns / nullif(one_ns + both_ns + unknown_ns, 0) AS shared_of_busy_low_pct,
  -- The same if more than one was busy in all unknown time, percent. (bound)
  100.0 * (both_ns + unknown_ns) / nullif(one_ns + both_ns + unknown_ns, 0)
    AS shared_of_busy_high_pct,
  -- Share of the thread time of this core with an SMT sibling busy. (no bounds)
  100.0 * shared_thread_ns / nullif(thread_ns, 0) AS shared_of_thread_pct,
  -- Time with none busy, ns. (at least; unknown_ns more at most)
  none_ns,
  -- Time with exactly one busy, ns. (at least; unknown_ns more at most)
  one_ns,
  -- Time with more than one busy, ns. (at least; unknown_ns more at most)
  both_ns,
  -- Time with at least two CPUs online and the state of some CPU unknown, left out of the shares,
  -- ns. (bound)
  unknown_ns,
  -- Thread time on this core in the counted time, ns. (at least)
  thread_ns,
  -- Part of thread_ns with an SMT sibling busy, ns. (at least)
  shared_thread_ns,
FROM spent
LEFT JOIN kind USING (trace_id, core)
ORDER BY trace_id, core;
