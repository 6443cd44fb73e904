-- Mean number of threads on each kind of core over the window, in p_columns time bins; bins in
-- which no thread ran are left out. p_alone includes threads whose sibling is in an unknown state.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_columns [2000]: number of time bins in the window.
WITH
  span AS (
    SELECT *, greatest(1, ceil(dur_ns / p_columns)::BIGINT) AS width_ns
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)
    WHERE dur_ns > 0
  ),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (FROM topology(p_trace_id)),
  part AS (
    SELECT trace_id, utid, cpu, ts, dur, false AS is_shared FROM sched_slice WHERE NOT is_idle
    UNION ALL
    SELECT trace_id, utid, cpu, ts, dur, true FROM sharing_slice
  ),
  cut AS (
    SELECT
      part.trace_id,
      part.is_shared,
      CASE
        WHEN place.core_type IN ('P', 'U') THEN 'p'
        WHEN place.core_type IN ('E', 'LP-E') THEN 'e'
        ELSE 'other'
      END AS kind,
      span.start_ns,
      span.end_ns,
      span.width_ns,
      greatest(part.ts, span.start_ns) - span.start_ns AS begin_ns,
      least(part.ts + part.dur, span.end_ns) - span.start_ns AS until_ns,
      unnest(range(begin_ns // span.width_ns, (until_ns - 1) // span.width_ns + 1)) AS col,
    FROM part
    JOIN span ON span.trace_id = part.trace_id
    LEFT JOIN place
      ON place.trace_id = part.trace_id AND place.cpu = part.cpu
      AND part.ts >= place.from_ns AND part.ts < place.to_ns
    WHERE (p_process IS NULL OR part.utid IN (SELECT utid FROM who))
      AND part.dur > 0 AND part.ts < span.end_ns AND part.ts + part.dur > span.start_ns
  ),
  summed AS (
    SELECT
      trace_id,
      (any_value(start_ns) + col * any_value(width_ns))::BIGINT AS start_ns,
      least(any_value(width_ns), any_value(end_ns - start_ns) - col * any_value(width_ns))::BIGINT
        AS dur_ns,
      sum(ns) FILTER (WHERE kind = 'p' AND NOT is_shared) AS p_ns,
      sum(ns) FILTER (WHERE kind = 'p' AND is_shared) AS shared_ns,
      sum(ns) FILTER (WHERE kind = 'e' AND NOT is_shared) AS e_ns,
      sum(ns) FILTER (WHERE kind = 'other' AND NOT is_shared) AS other_ns,
    FROM (
      SELECT *, overlap_ns(begin_ns, until_ns, col * width_ns, (col + 1) * width_ns) AS ns
      FROM cut
    )
    GROUP BY trace_id, col
  )
SELECT
  -- Recording.
  trace_id,
  -- Start of the time bin, ns. (time)
  start_ns,
  -- Its length, ns. (exact)
  dur_ns,
  -- Mean number of threads on a P core (or a core of a uniform machine) with no sibling known to be
  -- busy.
  (coalesce(p_ns, 0) - coalesce(shared_ns, 0)) / dur_ns AS p_alone,
  -- Mean number of threads on such a core with an SMT sibling busy.
  coalesce(shared_ns, 0) / dur_ns AS p_shared,
  -- Mean number of threads on E or LP-E cores.
  coalesce(e_ns, 0) / dur_ns AS e,
  -- Mean number of threads on cores of unknown or numbered type.
  coalesce(other_ns, 0) / dur_ns AS other,
FROM summed
ORDER BY trace_id, start_ns;
