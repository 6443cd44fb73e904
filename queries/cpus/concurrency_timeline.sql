-- How many logical CPUs were busy at each moment of the window, on which kinds of core, and how
-- many threads were ready: every change, or means over p_columns time bins. A core with k > 0 busy
-- CPUs adds 1 to its core type and k - 1 to smt, so that p + e + other + smt = busy.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_columns: number of time bins in the window; null for every change.
WITH
  span AS (
    SELECT
      trace_id,
      start_ns,
      end_ns,
      CASE WHEN p_columns IS NOT NULL
        THEN greatest(1, ceil(dur_ns / p_columns)::BIGINT)
      END AS width_ns,
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
    WHERE dur_ns > 0
  ),
  -- Read twice: to keep its rows takes longer.
  piece AS NOT MATERIALIZED (
    SELECT
      c.*,
      span.start_ns,
      span.width_ns,
      greatest(c.ts, span.start_ns) - span.start_ns AS begin_ns,
      least(c.ts + c.dur, span.end_ns) - span.start_ns AS end_ns,
    FROM concurrency_slice AS c
    JOIN span ON span.trace_id = c.trace_id
    WHERE c.dur > 0 AND c.ts < span.end_ns AND c.ts + c.dur > span.start_ns
  ),
  -- Most are in one bin, where no list of bins is needed. To divide takes longer than to multiply.
  placed AS (
    SELECT
      *,
      end_ns - begin_ns AS ns,
      coalesce(begin_ns // width_ns * width_ns, begin_ns) AS place_ns,
    FROM piece
    WHERE width_ns IS NULL OR end_ns <= begin_ns // width_ns * width_ns + width_ns
    UNION ALL
    SELECT
      * EXCLUDE (col) REPLACE (greatest(begin_ns, col * width_ns) AS begin_ns),
      overlap_ns(begin_ns, end_ns, col * width_ns, (col + 1) * width_ns),
      col * width_ns,
    FROM (
      SELECT *, unnest(range(begin_ns // width_ns, (end_ns - 1) // width_ns + 1)) AS col
      FROM piece
      WHERE end_ns > begin_ns // width_ns * width_ns + width_ns
    )
  )
SELECT
  -- Recording.
  trace_id,
  -- Start, ns. (time)
  (any_value(start_ns) + min(begin_ns))::BIGINT AS start_ns,
  -- Length, ns. (no bounds)
  sum(ns)::BIGINT AS dur_ns,
  -- Mean number of busy logical CPUs.
  sum(busy * ns) / sum(ns) AS busy,
  -- Mean number of P or U cores with a busy CPU.
  sum(p * ns) / sum(ns) AS p,
  -- Mean number of E or LP-E cores with a busy CPU.
  sum(e * ns) / sum(ns) AS e,
  -- Mean number of cores of unknown or numbered type with a busy CPU.
  sum(other * ns) / sum(ns) AS other,
  -- Mean number of busy CPUs beyond the first of their core.
  sum(smt * ns) / sum(ns) AS smt,
  -- Mean number of ready threads.
  sum(ready * ns) / sum(ns) AS ready,
  -- Mean number of logical CPUs in an unknown state, so more may be busy.
  sum(unknown * ns) / sum(ns) AS unknown,
FROM placed
GROUP BY trace_id, place_ns
ORDER BY trace_id, start_ns;
