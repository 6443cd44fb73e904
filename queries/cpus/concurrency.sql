-- How many logical CPUs were busy at once: time at each number, and on which kinds of core. A core
-- with k > 0 busy CPUs adds 1 to its core type and k - 1 to smt, so that p + e + other + smt =
-- busy.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  piece AS (
    SELECT level.*, span.dur_ns AS window_ns
    FROM concurrency_level(p_trace_id, p_from_ns, p_to_ns) AS level
    JOIN span ON span.trace_id = level.trace_id
  )
SELECT
  -- Recording.
  trace_id,
  -- Busy logical CPUs.
  busy,
  -- Time with exactly this many busy CPUs, ns. (from low_ns to high_ns)
  sum(ns)::BIGINT AS ns,
  -- Part of ns in which the state of every CPU is known, ns. (bound)
  coalesce(sum(ns) FILTER (WHERE unknown = 0), 0)::BIGINT AS low_ns,
  -- ns plus the time with fewer busy CPUs in which the state of some CPU is unknown, ns. (bound)
  (
    sum(ns) + coalesce(
      sum(coalesce(sum(ns) FILTER (WHERE unknown > 0), 0)) OVER (
        PARTITION BY trace_id ORDER BY busy ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ),
      0
    )
  )::BIGINT AS high_ns,
  -- ns as a share of the window, percent. (no bounds)
  100.0 * sum(ns) / nullif(any_value(window_ns), 0) AS pct,
  -- Mean number of P or U cores with a busy CPU in this time.
  sum(p * ns) / sum(ns) AS p,
  -- Mean number of E or LP-E cores with a busy CPU in this time.
  sum(e * ns) / sum(ns) AS e,
  -- Mean number of cores of unknown or numbered type with a busy CPU in this time.
  sum(other * ns) / sum(ns) AS other,
  -- Mean number of busy CPUs beyond the first of their core in this time.
  sum(smt * ns) / sum(ns) AS smt,
  -- Mean number of ready threads in this time.
  sum(ready * ns) / sum(ns) AS ready,
  -- Part of ns in which the state of some CPU is unknown, so more may be busy, ns. (bound)
  coalesce(sum(ns) FILTER (WHERE unknown > 0), 0)::BIGINT AS unknown_ns,
FROM piece
GROUP BY trace_id, busy
ORDER BY trace_id, busy;
