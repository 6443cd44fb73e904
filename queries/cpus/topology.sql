-- The logical CPUs of each machine. Each row covers the time for which it applies, because topology
-- may change during a recording (a CPU goes offline, an efficiency class is raised).
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording.
  trace_id,
  -- Logical CPU.
  cpu,
  -- Core: the lowest logical CPU number of its siblings; null if unknown.
  core,
  -- Rank among the siblings of its core, from 0.
  smt_index,
  -- Core type: U (uniform), P, E or LP-E; null if unknown.
  core_type,
  -- Efficiency class as the system reports it; higher is faster.
  efficiency_class,
  -- Last-level cache group: the lowest logical CPU number that shares it.
  llc,
  -- Physical package.
  package,
  -- NUMA node.
  numa_node,
  -- Whether it is online while this row applies.
  online,
  -- When this row starts to apply, ns; the smallest number for a row that applies from the start.
  -- (time)
  coalesce(valid_from_ns, -9223372036854775807)::BIGINT AS from_ns,
  -- When this row stops applying, ns; the largest number if it applies to the end. (time)
  coalesce(
    -- If two rows have the same time, the later one applies.
    lead(valid_from_ns) OVER (
      PARTITION BY trace_id, cpu ORDER BY valid_from_ns NULLS FIRST, rowid
    ),
    9223372036854775807
  )::BIGINT AS to_ns,
FROM cpu
WHERE p_trace_id IS NULL OR trace_id = p_trace_id
ORDER BY trace_id, cpu, from_ns;
