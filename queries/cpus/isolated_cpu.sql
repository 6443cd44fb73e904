-- Logical CPUs that the kernel isolates (isolcpus), as the machine's settings list them.
-- No rows without: machine_setting.
-- p_trace_id: only this recording; null for all.
WITH
  part AS (
    SELECT trace_id, unnest(string_split(value, ',')) AS cpus
    FROM machine_setting
    WHERE key = 'isolated_cpus' AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  )
SELECT DISTINCT
  -- Recording.
  trace_id,
  -- Logical CPU.
  unnest(range(
    TRY_CAST(split_part(trim(cpus), '-', 1) AS INTEGER),
    1 + least(
      65536,
      TRY_CAST(
        coalesce(nullif(split_part(trim(cpus), '-', 2), ''), split_part(trim(cpus), '-', 1))
        AS INTEGER
      )
    )
  ))::INTEGER AS cpu,
FROM part
ORDER BY trace_id, cpu;
