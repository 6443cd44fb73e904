-- Frequency of each logical CPU, if the recording contains frequency changes; a CPU without any is
-- left out. The frequency before a CPU's first change is unknown and not counted.
-- No rows without: cpu_frequency.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  step AS (
    SELECT
      trace_id,
      cpu,
      ts,
      khz,
      coalesce(
        lead(ts) OVER (PARTITION BY trace_id, cpu ORDER BY ts),
        greatest(ts, t.duration_ns)
      ) AS until_ns,
    FROM cpu_frequency
    JOIN trace AS t USING (trace_id)
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  -- Integral of the frequency up to each change, in kHz x ns. Its differences are exact, and each
  -- slice needs only the two changes around it.
  summed AS MATERIALIZED (
    SELECT
      *,
      coalesce(
        sum(khz::HUGEINT * (until_ns - ts)) OVER (
          PARTITION BY trace_id, cpu ORDER BY ts
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        0
      ) AS before,
      min(ts) OVER (PARTITION BY trace_id, cpu) AS known_ns,
    FROM step
  ),
  inside AS (
    SELECT
      step.trace_id,
      step.cpu,
      count(*) FILTER (WHERE ts >= start_ns) AS changes,
      min(khz) AS min_khz,
      max(khz) AS max_khz,
      sum(overlap_ns(ts, until_ns, start_ns, end_ns))::BIGINT AS known_ns,
      sum(khz::HUGEINT * overlap_ns(ts, until_ns, start_ns, end_ns)) AS product,
    FROM step
    JOIN span USING (trace_id)
    WHERE ts < end_ns AND until_ns > start_ns
    GROUP BY step.trace_id, step.cpu
  ),
  busy AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.cpu,
      greatest(s.ts, span.start_ns, first.known_ns) AS from_ns,
      least(s.ts + s.dur, span.end_ns) AS to_ns,
    FROM cpu_state AS s
    JOIN span USING (trace_id)
    JOIN (SELECT DISTINCT trace_id, cpu, known_ns FROM summed) AS first USING (trace_id, cpu)
    WHERE s.state IN ('thread', 'interrupt')
      AND greatest(s.ts, span.start_ns, first.known_ns) < least(s.ts + s.dur, span.end_ns)
  ),
  weighed AS (
    SELECT
      busy.trace_id,
      busy.cpu,
      sum(busy.to_ns - busy.from_ns)::BIGINT AS busy_ns,
      sum(
        (b.before + b.khz::HUGEINT * (busy.to_ns - b.ts))
        - (a.before + a.khz::HUGEINT * (busy.from_ns - a.ts))
      ) AS product,
    FROM busy
    ASOF JOIN summed AS a
      ON a.trace_id = busy.trace_id AND a.cpu = busy.cpu AND busy.from_ns >= a.ts
    ASOF JOIN summed AS b
      ON b.trace_id = busy.trace_id AND b.cpu = busy.cpu AND busy.to_ns >= b.ts
    GROUP BY busy.trace_id, busy.cpu
  )
SELECT
  -- Recording.
  inside.trace_id,
  -- Logical CPU.
  inside.cpu,
  -- Changes recorded in the window.
  changes,
  -- Time in the window for which the frequency is known, ns. (at least)
  inside.known_ns,
  -- Mean frequency over that time, kHz.
  inside.product::DOUBLE / nullif(inside.known_ns, 0) AS avg_khz,
  -- Mean frequency while the CPU was busy, kHz; null if it never was.
  weighed.product::DOUBLE / nullif(weighed.busy_ns, 0) AS busy_avg_khz,
  -- Lowest frequency, kHz.
  min_khz,
  -- Highest frequency, kHz.
  max_khz,
FROM inside
LEFT JOIN weighed USING (trace_id, cpu)
ORDER BY inside.trace_id, inside.cpu;
