-- What running with an SMT sibling busy cost each thread, by its own counters: its shared time x (1
-- - CPI alone / CPI shared). Intervals at most 5 % shared count as alone, those at least 95 %
-- shared as shared; 95 % confidence intervals of ratios of sums. Refused with fewer than p_least
-- intervals of either kind.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_least [30]: smallest number of intervals of each kind.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  kind AS (
    SELECT
      c.*,
      CASE
        WHEN 20 * (c.shared_ns + c.unknown_ns) <= c.dur THEN 'alone'
        WHEN 20 * c.shared_ns >= 19 * c.dur THEN 'shared'
      END AS kind,
    FROM counter_interval(p_trace_id, p_from_ns, p_to_ns) AS c
    JOIN who ON who.utid = c.utid
    -- A core without siblings has nothing to compare.
    SEMI JOIN (
      SELECT DISTINCT s.utid, place.core_type
      FROM sharing_slice AS s
      JOIN topology(p_trace_id) AS place
        ON place.trace_id = s.trace_id AND place.cpu = s.cpu
        AND s.ts >= place.from_ns AND s.ts < place.to_ns
    ) AS has ON has.utid = c.utid AND has.core_type IS NOT DISTINCT FROM c.core_type
  ),
  summed AS (
    SELECT
      trace_id,
      utid,
      core_type,
      kind,
      count(*) AS n,
      sum(cycles)::DOUBLE AS cycles,
      sum(instructions)::DOUBLE AS instructions,
    FROM kind
    WHERE kind IS NOT NULL
    GROUP BY trace_id, utid, core_type, kind
  ),
  -- Variance of a ratio of sums, with each interval as one sample.
  spread AS (
    SELECT
      s.utid,
      s.core_type,
      s.kind,
      any_value(s.n) AS n,
      any_value(s.cycles / s.instructions) AS cpi,
      any_value(s.n) / nullif(any_value(s.n) - 1, 0)
        * sum(pow(k.cycles - s.cycles / s.instructions * k.instructions, 2))
        / any_value(pow(s.instructions, 2)) AS variance,
    FROM summed AS s
    JOIN kind AS k
      ON k.utid = s.utid AND k.core_type IS NOT DISTINCT FROM s.core_type AND k.kind = s.kind
    WHERE s.instructions > 0 AND s.cycles > 0
    GROUP BY s.utid, s.core_type, s.kind
  ),
  paired AS (
    SELECT
      utid,
      core_type,
      coalesce(max(n) FILTER (WHERE kind = 'alone'), 0) AS alone_n,
      coalesce(max(n) FILTER (WHERE kind = 'shared'), 0) AS shared_n,
      max(cpi) FILTER (WHERE kind = 'alone') AS alone_cpi,
      max(cpi) FILTER (WHERE kind = 'shared') AS shared_cpi,
      max(variance) FILTER (WHERE kind = 'alone') AS alone_variance,
      max(variance) FILTER (WHERE kind = 'shared') AS shared_variance,
    FROM spread
    GROUP BY utid, core_type
  ),
  sharing AS (
    SELECT
      s.utid,
      place.core_type,
      sum(clipped_ns(s.ts, s.dur, span.start_ns, span.end_ns))::BIGINT AS ns,
    FROM sharing_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    LEFT JOIN topology(p_trace_id) AS place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND s.ts >= place.from_ns AND s.ts < place.to_ns
    WHERE (p_process IS NULL OR s.utid IN (SELECT utid FROM who))
      AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
    GROUP BY s.utid, place.core_type
  ),
  judged AS (
    SELECT
      sharing.utid,
      sharing.core_type,
      sharing.ns AS shared_ns,
      paired.* EXCLUDE (utid, core_type),
      coalesce(paired.alone_n, 0) >= p_least AND coalesce(paired.shared_n, 0) >= p_least AS enough,
      1 - paired.alone_cpi / paired.shared_cpi AS lost,
      1.96 * paired.alone_cpi / paired.shared_cpi * sqrt(
        paired.alone_variance / pow(paired.alone_cpi, 2)
        + paired.shared_variance / pow(paired.shared_cpi, 2)
      ) AS margin,
    FROM sharing
    LEFT JOIN paired
      ON paired.utid = sharing.utid AND paired.core_type IS NOT DISTINCT FROM sharing.core_type
    -- Without counters there is no row to report.
    SEMI JOIN (SELECT DISTINCT trace_id FROM kind) AS counted
      ON counted.trace_id = sharing.utid >> 32
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name of the process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  who.utid,
  -- Core type: U (uniform), P, E or LP-E; null if unknown.
  judged.core_type,
  -- All its running time with an SMT sibling busy on this core type, ns. (at least)
  judged.shared_ns,
  -- Intervals alone.
  coalesce(judged.alone_n, 0) AS alone_intervals,
  -- Intervals shared.
  coalesce(judged.shared_n, 0) AS shared_intervals,
  -- Cycles per instruction alone; null if none is known.
  judged.alone_cpi,
  -- Cycles per instruction with an SMT sibling busy; null if none is known.
  judged.shared_cpi,
  -- Cost of sharing, ns; negative: it ran faster; null if refused. (no bounds)
  CASE WHEN enough THEN round(judged.shared_ns * lost) END::BIGINT AS tax_ns,
  -- Lower end of its confidence interval, ns; null if refused. (no bounds)
  CASE WHEN enough THEN round(judged.shared_ns * (lost - margin)) END::BIGINT AS tax_low_ns,
  -- Upper end of its confidence interval, ns; null if refused. (no bounds)
  CASE WHEN enough THEN round(judged.shared_ns * (lost + margin)) END::BIGINT AS tax_high_ns,
  -- The same as a share of the time with an SMT sibling busy, percent; null if refused. (no bounds)
  CASE WHEN enough THEN 100 * lost END AS tax_pct,
  -- Why there is no figure; null if there is one.
  CASE
    WHEN enough THEN NULL
    ELSE 'fewer than ' || p_least || ' intervals alone or shared'
  END AS refused,
FROM judged
JOIN who ON who.utid = judged.utid
ORDER BY who.trace_id, tax_ns DESC NULLS LAST, shared_ns DESC, who.utid, judged.core_type;
