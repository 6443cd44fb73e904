-- The frequency each thread ran at: the mean over its time on a CPU, where the recording holds
-- changes of frequency. Time before a CPU's first change is unknown and counts nowhere.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
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
    FROM (
      SELECT
        trace_id,
        cpu,
        ts,
        khz,
        coalesce(lead(ts) OVER (PARTITION BY trace_id, cpu ORDER BY ts), ts) AS until_ns,
      FROM cpu_frequency
      WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    ) AS step
  ),
  stay AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.cpu,
      s.utid,
      greatest(s.ts, span.start_ns, first.known_ns) AS from_ns,
      least(s.ts + s.dur, span.end_ns) AS to_ns,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    JOIN (SELECT DISTINCT trace_id, cpu, known_ns FROM summed) AS first USING (trace_id, cpu)
    WHERE NOT s.is_idle
      AND greatest(s.ts, span.start_ns, first.known_ns) < least(s.ts + s.dur, span.end_ns)
  ),
  weighed AS (
    SELECT
      stay.utid,
      sum(stay.to_ns - stay.from_ns)::BIGINT AS known_ns,
      sum(
        (b.before + b.khz::HUGEINT * (stay.to_ns - b.ts))
        - (a.before + a.khz::HUGEINT * (stay.from_ns - a.ts))
      ) AS product,
    FROM stay
    ASOF JOIN summed AS a
      ON a.trace_id = stay.trace_id AND a.cpu = stay.cpu AND stay.from_ns >= a.ts
    ASOF JOIN summed AS b
      ON b.trace_id = stay.trace_id AND b.cpu = stay.cpu AND stay.to_ns >= b.ts
    GROUP BY stay.utid
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
  -- Time on CPUs of which the frequency is known, ns.
  known_ns,
  -- Mean frequency over it, kHz.
  product::DOUBLE / nullif(known_ns, 0) AS avg_khz,
FROM weighed
JOIN who USING (utid)
ORDER BY who.trace_id, known_ns DESC, who.utid;
