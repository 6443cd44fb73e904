-- Parking state of each logical CPU over time: intervals that cover the recording. In a Windows
-- recording the state before a CPU's first record is unknown; Linux parks no CPUs.
-- p_trace_id: only this recording; null for all.
WITH
  recording AS (
    SELECT trace_id, coalesce(first_ns, 0) AS first_ns, duration_ns, is_windows_source(source) AS can_park
    FROM trace
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  recorded AS (
    SELECT
      r.trace_id,
      p.cpu,
      greatest(coalesce(p.ts, r.first_ns), r.first_ns) AS ts,
      p.ts AS recorded_ns,
      CASE
        WHEN p.parked THEN 'parked'
        WHEN p.soft_parked THEN 'soft_parked'
        WHEN p.parked IS NULL AND r.can_park THEN 'unknown'
        ELSE 'unparked'
      END AS state,
      p.reason,
      p.rowid AS record,
    FROM cpu_parking AS p
    JOIN recording AS r ON r.trace_id = p.trace_id
    UNION ALL
    SELECT DISTINCT
      r.trace_id,
      c.cpu,
      r.first_ns,
      NULL,
      CASE WHEN r.can_park THEN 'unknown' ELSE 'unparked' END,
      NULL,
      NULL,
    FROM cpu AS c
    JOIN recording AS r ON r.trace_id = c.trace_id
  ),
  -- If several records have the same time, the last one in the recording applies. Any record
  -- overrides the state that is assumed without one.
  one AS (
    SELECT *
    FROM recorded
    QUALIFY row_number() OVER (
      PARTITION BY trace_id, cpu, ts
      ORDER BY recorded_ns DESC NULLS LAST, record DESC NULLS LAST
    ) = 1
  ),
  changed AS (
    SELECT *
    FROM one
    QUALIFY (state, reason) IS DISTINCT FROM (
      lag(state) OVER (PARTITION BY trace_id, cpu ORDER BY ts),
      lag(reason) OVER (PARTITION BY trace_id, cpu ORDER BY ts)
    ) OR lag(ts) OVER (PARTITION BY trace_id, cpu ORDER BY ts) IS NULL
  )
SELECT
  -- Recording.
  c.trace_id,
  -- Logical CPU.
  c.cpu,
  -- Start, ns. (time)
  c.ts,
  -- Length, ns. (no bounds)
  (
    coalesce(
      lead(c.ts) OVER (PARTITION BY c.trace_id, c.cpu ORDER BY c.ts),
      greatest(r.duration_ns, c.ts)
    )
    - c.ts
  )::BIGINT AS dur,
  -- unparked, parked, soft_parked (only avoided) or unknown.
  c.state,
  -- Why it changed; null if not recorded.
  c.reason,
FROM changed AS c
JOIN recording AS r ON r.trace_id = c.trace_id
ORDER BY c.trace_id, c.cpu, c.ts;
