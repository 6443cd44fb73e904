-- The frequency each thread ran at on each core type: the mean over its running time on CPUs of
-- that type whose frequency is known.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (FROM topology(p_trace_id)),
  slice AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.cpu,
      s.utid,
      place.core_type,
      greatest(s.ts, span.start_ns) AS from_ns,
      least(s.ts + s.dur, span.end_ns) AS to_ns,
      row_number() OVER () AS id,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    LEFT JOIN place
      ON place.trace_id = s.trace_id AND place.cpu = s.cpu
      AND s.ts >= place.from_ns AND s.ts < place.to_ns
    WHERE (p_process IS NULL OR s.utid IN (SELECT utid FROM who))
      AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
      AND s.trace_id IN (SELECT trace_id FROM cpu_frequency)
  ),
  -- One stream contains the frequency changes and the starts (sign -1) and ends (1) of slices.
  stream AS (
    SELECT trace_id, cpu, ts, khz,
      khz - coalesce(lag(khz) OVER (PARTITION BY trace_id, cpu ORDER BY ts), 0) AS rise,
      0 AS sign, NULL AS id,
    FROM cpu_frequency
    WHERE khz IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION ALL
    SELECT trace_id, cpu, unnest([from_ns, to_ns]), NULL, 0, unnest([-1, 1]), id FROM slice
  ),
  level AS (
    SELECT
      *,
      row_number() OVER sofar AS place,
      -- If changes are rare, searching backwards for the last one would scale quadratically.
      CASE WHEN count(khz) OVER sofar > 0 THEN sum(rise) OVER sofar END AS now_khz,
      lead(ts) OVER sofar - ts AS dur,
    FROM stream
    WINDOW sofar AS (PARTITION BY trace_id, cpu ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  summed AS (
    SELECT id, sum(sign * product) AS product, sum(sign * known) AS known_ns
    FROM (
      SELECT
        id,
        sign,
        coalesce(sum(now_khz::HUGEINT * dur) OVER before, 0) AS product,
        coalesce(sum(CASE WHEN now_khz IS NOT NULL THEN dur END) OVER before, 0) AS known,
      FROM level
      WINDOW before AS (
        PARTITION BY trace_id, cpu ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      )
    )
    WHERE id IS NOT NULL
    GROUP BY id
  ),
  weighed AS (
    SELECT
      slice.utid,
      slice.core_type,
      sum(summed.known_ns)::BIGINT AS known_ns,
      sum(summed.product) AS product,
    FROM slice
    JOIN summed ON summed.id = slice.id
    GROUP BY slice.utid, slice.core_type
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
  weighed.core_type,
  -- Running time on CPUs of this type whose frequency is known, ns. (at least)
  weighed.known_ns,
  -- Mean frequency over this time, kHz.
  weighed.product::DOUBLE / weighed.known_ns AS avg_khz,
FROM weighed
JOIN who ON who.utid = weighed.utid
WHERE weighed.known_ns > 0
ORDER BY who.trace_id, sum(weighed.known_ns) OVER (PARTITION BY who.utid) DESC, who.utid, core_type;
