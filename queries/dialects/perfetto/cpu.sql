-- Perfetto's table cpu.
-- p_trace_id: only this recording; null for all.
WITH
  latest AS (
    SELECT *
    FROM main.cpu
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    QUALIFY row_number() OVER (
      PARTITION BY trace_id, cpu ORDER BY valid_from_ns DESC NULLS LAST
    ) = 1
  )
SELECT
  -- Recording.
  latest.trace_id,
  -- Logical CPU, unique in the database.
  latest.trace_id << 32 | latest.cpu AS ucpu,
  -- Logical CPU.
  latest.cpu,
  -- Cluster: rank of its efficiency class, slowest first; null if the class is unknown.
  CASE WHEN efficiency_class IS NOT NULL THEN
    dense_rank() OVER (PARTITION BY latest.trace_id ORDER BY efficiency_class) - 1
  END AS cluster_id,
  -- CPU model as the system reports it.
  trace.cpu_model AS processor,
  -- Linux cpu_capacity, 1024 for the fastest; null if not reported.
  capacity,
FROM latest
JOIN main.trace AS trace USING (trace_id)
ORDER BY latest.trace_id, latest.cpu;
