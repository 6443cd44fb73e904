-- How much of its running time each thread spent with an SMT sibling busy. Threads that did not run
-- in the window are left out.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (SELECT DISTINCT trace_id, cpu, core FROM cpu WHERE core IS NOT NULL),
  -- A null thread: the state of the CPU is unknown.
  spent AS (
    SELECT
      trace_id,
      cpu,
      utid,
      sum(clipped_ns(ts, dur, start_ns, end_ns))::BIGINT AS ns,
    FROM cpu_state
    JOIN span USING (trace_id)
    WHERE state IN ('thread', 'unknown') AND ts < end_ns AND ts + dur > start_ns
    GROUP BY trace_id, cpu, utid
  ),
  sibling AS (
    SELECT own.trace_id, own.cpu, sum(spent.ns) AS unknown_ns
    FROM spent
    JOIN place AS other ON other.trace_id = spent.trace_id AND other.cpu = spent.cpu
    JOIN place AS own
      ON own.trace_id = other.trace_id AND own.core = other.core AND own.cpu <> other.cpu
    WHERE spent.utid IS NULL
    GROUP BY own.trace_id, own.cpu
  ),
  ran AS (
    SELECT
      spent.utid,
      sum(spent.ns)::BIGINT AS run_ns,
      sum(least(spent.ns, coalesce(sibling.unknown_ns, 0))) AS unknown_ns,
    FROM spent
    LEFT JOIN sibling ON sibling.trace_id = spent.trace_id AND sibling.cpu = spent.cpu
    WHERE spent.utid IS NOT NULL
    GROUP BY spent.utid
  ),
  shared AS (
    SELECT utid, sum(clipped_ns(ts, dur, start_ns, end_ns))::BIGINT AS shared_ns
    FROM sharing_slice
    JOIN span USING (trace_id)
    WHERE ts < end_ns AND ts + dur > start_ns
    GROUP BY utid
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  who.utid,
  -- Running time, ns. (at least; unknown_ns more at most)
  ran.run_ns,
  -- Part of run_ns with at least one SMT sibling busy, ns. (at least; unknown_ns more at most)
  coalesce(shared.shared_ns, 0)::BIGINT AS shared_ns,
  -- shared_ns as a share of run_ns, percent. (no bounds)
  100.0 * coalesce(shared.shared_ns, 0) / ran.run_ns AS shared_pct,
  -- Unknown time in which it may have run, plus the most that it ran while the state of a sibling
  -- is unknown, ns. (bound)
  (ran.unknown_ns + coalesce(t.run_unknown_ns, 0))::BIGINT AS unknown_ns,
FROM ran
JOIN who ON who.utid = ran.utid
LEFT JOIN shared ON shared.utid = ran.utid
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t ON t.utid = ran.utid
ORDER BY who.trace_id, shared_ns DESC, who.utid;
