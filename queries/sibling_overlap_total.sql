-- How often siblings were busy together, over the whole machine.
-- The shares of time are unweighted means over the cores with siblings; the last two shares are
-- ratios of sums. Compare two recordings by shared_of_busy_pct, and look at busy_pct beside it.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  per_core AS (FROM sibling_overlap(p_trace_id, p_from_ns, p_to_ns)),
  machine AS (
    SELECT
      trace_id,
      sum(threads * (least(ts + dur, end_ns) - greatest(ts, start_ns)))
        FILTER (WHERE unknown = 0) AS thread_ns,
      sum(busy * (least(ts + dur, end_ns) - greatest(ts, start_ns)))
        FILTER (WHERE unknown = 0) AS busy_ns,
      sum(online * (least(ts + dur, end_ns) - greatest(ts, start_ns)))
        FILTER (WHERE unknown = 0) AS known_ns,
    FROM core_state
    JOIN span USING (trace_id)
    WHERE ts < end_ns AND ts + dur > start_ns
    GROUP BY trace_id
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
  -- Of the time of these cores with at least one busy, the share with more than one.
  -- (from shared_of_busy_low_pct to shared_of_busy_high_pct)
  shared_of_busy_pct,
  -- The same if exactly one was busy in all unknown time, percent. (bound)
  shared_of_busy_low_pct,
  -- The same if more than one was busy in all unknown time, percent. (bound)
  shared_of_busy_high_pct,
  -- Of all thread time of the machine, the share beside a busy sibling; null without siblings.
  -- (no bounds)
  100.0 * shared_thread_ns / nullif(thread_ns, 0) AS shared_of_thread_pct,
  -- Load: busy share of the known time of all online logical CPUs. (no bounds)
  100.0 * busy_ns / nullif(known_ns, 0) AS busy_pct,
  -- Core time with more than one busy, ns. (at least; unknown_ns more at most)
  both_ns,
  -- Thread time beside a busy sibling, ns. (at least)
  shared_thread_ns,
  -- Thread time of the machine in known time, ns. (at least)
  thread_ns::BIGINT AS thread_ns,
  -- Core time of cores with siblings left out, since some state is unknown, ns. (bound)
  unknown_ns,
FROM machine
LEFT JOIN cores USING (trace_id)
ORDER BY trace_id;
