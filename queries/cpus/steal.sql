-- What the system counted on each logical CPU between the two snapshots of a step, and how much of
-- it the hypervisor took (steal). A virtual CPU that the host has descheduled looks busy in the
-- trace. Counters that ran backwards are unknown.
-- No rows without: snapshot_cpu.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
WITH
  edge AS (
    SELECT
      trace_id,
      cpu,
      max(ts) FILTER (WHERE edge = 'end') - max(ts) FILTER (WHERE edge = 'begin') AS step_ns,
      max(user_ns) FILTER (WHERE edge = 'end')
        - max(user_ns) FILTER (WHERE edge = 'begin') AS user_ns,
      max(system_ns) FILTER (WHERE edge = 'end')
        - max(system_ns) FILTER (WHERE edge = 'begin') AS system_ns,
      max(idle_ns) FILTER (WHERE edge = 'end')
        - max(idle_ns) FILTER (WHERE edge = 'begin') AS idle_ns,
      max(irq_ns) FILTER (WHERE edge = 'end')
        - max(irq_ns) FILTER (WHERE edge = 'begin') AS irq_ns,
      max(softirq_ns) FILTER (WHERE edge = 'end')
        - max(softirq_ns) FILTER (WHERE edge = 'begin') AS softirq_ns,
      max(steal_ns) FILTER (WHERE edge = 'end')
        - max(steal_ns) FILTER (WHERE edge = 'begin') AS steal_ns,
    FROM snapshot_cpu
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    GROUP BY trace_id, cpu
  )
SELECT
  -- Recording.
  trace_id,
  -- Logical CPU.
  cpu,
  -- Time between the two snapshots, ns; null if one of them lacks this CPU. (exact)
  step_ns,
  -- User time, ns. (exact)
  CASE WHEN user_ns >= 0 THEN user_ns END AS user_ns,
  -- System time, ns. (exact)
  CASE WHEN system_ns >= 0 THEN system_ns END AS system_ns,
  -- Idle time, ns. (exact)
  CASE WHEN idle_ns >= 0 THEN idle_ns END AS idle_ns,
  -- Interrupt time, ns. (exact)
  CASE WHEN irq_ns >= 0 THEN irq_ns END AS irq_ns,
  -- Softirq time, ns. (exact)
  CASE WHEN softirq_ns >= 0 THEN softirq_ns END AS softirq_ns,
  -- Time the hypervisor ran something else while this CPU had work, ns. (exact)
  CASE WHEN steal_ns >= 0 THEN steal_ns END AS steal_ns,
  -- steal_ns as a share of the step, percent. (exact)
  CASE WHEN steal_ns >= 0 THEN 100.0 * steal_ns / nullif(step_ns, 0) END AS steal_pct,
FROM edge
ORDER BY trace_id, cpu;
