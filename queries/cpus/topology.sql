-- The logical CPUs of each machine, each row with the time in which it holds: topology may
-- change while a recording runs (a CPU goes offline, a class number is raised).
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
  -- Class number as the system gives it; higher is faster.
  efficiency_class,
  -- Last-level cache group: the lowest logical CPU number that shares it.
  llc,
  -- Physical package.
  package,
  -- NUMA node.
  numa_node,
  -- Online while this row holds.
  online,
  -- From when on this row holds, ns; the smallest number for a row that holds from the beginning.
  -- (time)
  coalesce(valid_from_ns, -9223372036854775807)::BIGINT AS from_ns,
  -- Until when it holds, ns; the largest number if to the end. (time)
  coalesce(
    -- Of two rows of one time the later one holds.
    lead(valid_from_ns) OVER (
      PARTITION BY trace_id, cpu ORDER BY valid_from_ns NULLS FIRST, rowid
    ),
    9223372036854775807
  )::BIGINT AS to_ns,
FROM cpu
WHERE p_trace_id IS NULL OR trace_id = p_trace_id
ORDER BY trace_id, cpu, from_ns;
