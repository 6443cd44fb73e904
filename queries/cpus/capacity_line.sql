-- How many threads each machine can run at once: one per P core, one per core, one per logical CPU.
-- Each row covers the time for which it applies. A CPU counts while it is online.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
WITH
  recording AS (
    SELECT trace_id, coalesce(first_ns, 0) AS first_ns, duration_ns
    FROM trace
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  place AS (FROM topology(p_trace_id)),
  traced AS (
    SELECT DISTINCT trace_id, cpu
    FROM cpu_state
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  offline AS (
    SELECT trace_id, cpu, ts AS from_ns, ts + dur AS to_ns
    FROM cpu_state
    WHERE state = 'offline' AND dur > 0 AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  logical AS (
    SELECT trace_id, cpu FROM place
    UNION
    SELECT trace_id, cpu FROM traced
  ),
  change AS (
    SELECT trace_id, first_ns AS ts
    FROM recording
    UNION
    SELECT other.trace_id, other.ts
    FROM (
      SELECT trace_id, from_ns AS ts FROM place
      UNION ALL
      SELECT trace_id, unnest([from_ns, to_ns]) FROM offline
    ) AS other
    JOIN recording ON recording.trace_id = other.trace_id
    WHERE other.ts > recording.first_ns AND other.ts < recording.duration_ns
  ),
  counted AS (
    SELECT
      change.trace_id,
      change.ts,
      count(DISTINCT place.core) FILTER (WHERE place.core_type IN ('P', 'U')) AS p_cores,
      count(DISTINCT place.core) AS cores,
      count(DISTINCT logical.cpu) AS cpus,
      count(DISTINCT logical.cpu) FILTER (WHERE place.core IS NULL) AS cpus_without_core,
    FROM change
    JOIN logical ON logical.trace_id = change.trace_id
    LEFT JOIN place
      ON place.trace_id = change.trace_id AND place.cpu = logical.cpu
      AND change.ts >= place.from_ns AND change.ts < place.to_ns
    LEFT JOIN offline
      ON offline.trace_id = change.trace_id AND offline.cpu = logical.cpu
      AND change.ts >= offline.from_ns AND change.ts < offline.to_ns
    LEFT JOIN traced ON traced.trace_id = change.trace_id AND traced.cpu = logical.cpu
    -- If the trace has events of a CPU, the trace decides when that CPU is offline.
    WHERE offline.cpu IS NULL AND (traced.cpu IS NOT NULL OR place.online IS NOT FALSE)
    GROUP BY change.trace_id, change.ts
  ),
  spell AS (
    SELECT *
    FROM counted
    WINDOW sofar AS (PARTITION BY trace_id ORDER BY ts)
    QUALIFY (p_cores, cores, cpus, cpus_without_core) IS DISTINCT FROM (
      lag(p_cores) OVER sofar, lag(cores) OVER sofar, lag(cpus) OVER sofar,
      lag(cpus_without_core) OVER sofar
    )
  )
SELECT
  -- Recording.
  spell.trace_id,
  -- Start, ns. (time)
  spell.ts,
  -- Length, ns. (no bounds)
  (
    coalesce(
      lead(spell.ts) OVER (PARTITION BY spell.trace_id ORDER BY spell.ts),
      greatest(recording.duration_ns, spell.ts)
    )
    - spell.ts
  )::BIGINT AS dur,
  -- P: cores of type P or U; 0 if the types are unknown.
  spell.p_cores,
  -- P+E: all cores; 0 if unknown.
  spell.cores,
  -- P+E+SMT: all logical CPUs.
  spell.cpus,
  -- Logical CPUs whose core is unknown; p_cores and cores leave them out.
  spell.cpus_without_core,
FROM spell
JOIN recording ON recording.trace_id = spell.trace_id
ORDER BY spell.trace_id, spell.ts;
