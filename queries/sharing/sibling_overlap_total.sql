-- How often siblings were busy at the same time, over the whole machine. The shares of time are
-- unweighted means over the cores with siblings; the last two shares are ratios of sums. Compare
-- recordings by shared_of_busy_pct, and check busy_pct alongside it. Logical CPUs whose core is
-- unknown count in thread_ns and busy_pct, and in no share of a core.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  per_core AS (FROM sibling_overlap(p_trace_id, p_from_ns, p_to_ns)),
  in_core AS (
    SELECT
      trace_id,
      sum(threads * clipped_ns(ts, dur, start_ns, end_ns)) FILTER (WHERE unknown = 0) AS thread_ns,
      sum(busy * clipped_ns(ts, dur, start_ns, end_ns)) FILTER (WHERE unknown = 0) AS busy_ns,
      sum(online * clipped_ns(ts, dur, start_ns, end_ns)) FILTER (WHERE unknown = 0) AS known_ns,
    FROM core_state
    JOIN span USING (trace_id)
    WHERE ts < end_ns AND ts + dur > start_ns
    GROUP BY trace_id
  ),
  placed AS (SELECT trace_id, cpu, from_ns, to_ns FROM topology(p_trace_id) WHERE core IS NOT NULL),
  -- Time of each CPU in the window, minus the time in which its core is known.
  clipped AS (
    SELECT
      c.trace_id,
      c.cpu,
      c.state,
      greatest(c.ts, span.start_ns) AS from_ns,
      least(c.ts + c.dur, span.end_ns) AS to_ns,
    FROM cpu_state AS c
    JOIN span ON span.trace_id = c.trace_id
    ANTI JOIN (
      FROM placed WHERE from_ns <= -9223372036854775807 AND to_ns = 9223372036854775807
    ) AS always ON always.trace_id = c.trace_id AND always.cpu = c.cpu
    WHERE c.state IN ('thread', 'interrupt', 'idle')
      AND c.ts < span.end_ns AND c.ts + c.dur > span.start_ns
  ),
  coreless AS (
    SELECT trace_id, cpu, state, sum(ns) AS ns
    FROM (
      SELECT trace_id, cpu, state, to_ns - from_ns AS ns FROM clipped
      UNION ALL
      SELECT
        c.trace_id,
        c.cpu,
        c.state,
        -overlap_ns(c.from_ns, c.to_ns, p.from_ns, p.to_ns),
      FROM clipped AS c
      JOIN placed AS p
        ON p.trace_id = c.trace_id AND p.cpu = c.cpu
        AND p.from_ns < c.to_ns AND p.to_ns > c.from_ns
    )
    GROUP BY trace_id, cpu, state
    HAVING sum(ns) > 0
  ),
  without_core AS (
    SELECT
      trace_id,
      count(DISTINCT cpu) AS cpus,
      sum(ns) FILTER (WHERE state = 'thread') AS thread_ns,
      sum(ns) FILTER (WHERE state <> 'idle') AS busy_ns,
      sum(ns) AS known_ns,
    FROM coreless
    GROUP BY trace_id
  ),
  machine AS (
    SELECT
      trace_id,
      CASE WHEN a.thread_ns IS NOT NULL OR b.thread_ns IS NOT NULL
        THEN coalesce(a.thread_ns, 0) + coalesce(b.thread_ns, 0) END AS thread_ns,
      coalesce(a.busy_ns, 0) + coalesce(b.busy_ns, 0) AS busy_ns,
      coalesce(a.known_ns, 0) + coalesce(b.known_ns, 0) AS known_ns,
      coalesce(b.cpus, 0) AS cpus_without_core,
    FROM in_core AS a
    FULL JOIN without_core AS b USING (trace_id)
  ),
  cores AS (
    SELECT
      trace_id,
      count(both_pct) AS cores,
      avg(none_pct) AS none_pct,
      avg(one_pct) AS one_pct,
      avg(both_pct) AS both_pct,
      100.0 * sum(both_ns) / nullif(sum(one_ns + both_ns), 0) AS shared_of_busy_pct,
      100.0 * sum(both_ns) / nullif(sum(one_ns + both_ns + unknown_ns), 0)
        AS shared_of_busy_low_pct,
      100.0 * sum(both_ns + unknown_ns) / nullif(sum(one_ns + both_ns + unknown_ns), 0)
        AS shared_of_busy_high_pct,
      sum(both_ns)::BIGINT AS both_ns,
      sum(shared_thread_ns)::BIGINT AS shared_thread_ns,
      sum(unknown_ns)::BIGINT AS unknown_ns,
    FROM per_core
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  trace_id,
  -- Cores with at least two logical CPUs online at some known time of the window; 0: no siblings.
  coalesce(cores, 0) AS cores,
  -- Mean share of time with none busy; null without siblings. (no bounds)
  none_pct,
  -- Mean share of time with exactly one busy; null without siblings. (no bounds)
  one_pct,
  -- Mean share of time with more than one busy; null without siblings. (no bounds)
  both_pct,
  -- Share of these cores' time with at least one busy CPU in which more than one was.
  -- (from shared_of_busy_low_pct to shared_of_busy_high_pct)
  shared_of_busy_pct,
  -- The same if exactly one was busy in all unknown time, percent. (bound)
  shared_of_busy_low_pct,
  -- The same if more than one was busy in all unknown time, percent. (bound)
  shared_of_busy_high_pct,
  -- Share of all thread time of the machine with an SMT sibling busy; null without siblings.
  -- (no bounds)
  100.0 * shared_thread_ns / nullif(thread_ns, 0) AS shared_of_thread_pct,
  -- Load: busy share of the known time of all online logical CPUs. (no bounds)
  100.0 * busy_ns / nullif(known_ns, 0) AS busy_pct,
  -- Core time with more than one busy, ns. (at least; unknown_ns more at most)
  both_ns,
  -- Thread time with an SMT sibling busy, ns. (at least)
  shared_thread_ns,
  -- Thread time of the machine in known time, ns. (at least)
  thread_ns::BIGINT AS thread_ns,
  -- Time of cores with siblings left out because some state is unknown, ns. (bound)
  unknown_ns,
  -- Logical CPUs whose core is unknown for some of the time; the shares of cores leave that time
  -- out.
  cpus_without_core,
FROM machine
LEFT JOIN cores USING (trace_id)
ORDER BY trace_id;
