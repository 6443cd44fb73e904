-- What interrupted isolated CPUs: the tick, timers, RCU, interrupts from other CPUs (IPIs), devices,
-- and softirqs, with the kernel parameter that keeps it away. The tick and IPIs are recorded on x86
-- (irq_vectors); without them, the softirqs that the tick raises show it.
-- No rows without: interrupt_slice, machine_setting.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  seen AS (
    SELECT
      i.trace_id,
      i.cpu,
      i.kind,
      i.name,
      count(*) AS count,
      count(*) * 1e9 / nullif(any_value(span.dur_ns), 0) AS per_s,
      sum(clipped_ns(i.ts, i.dur, span.start_ns, span.end_ns)) FILTER (WHERE i.dur IS NOT NULL)
        AS run_ns,
      max(i.dur) AS longest_ns,
    FROM interrupt_slice AS i
    JOIN span ON span.trace_id = i.trace_id
    SEMI JOIN isolated_cpu(p_trace_id) AS c ON c.trace_id = i.trace_id AND c.cpu = i.cpu
    WHERE i.ts <= span.end_ns AND (i.dur IS NULL OR i.ts + i.dur >= span.start_ns)
    GROUP BY i.trace_id, i.cpu, i.kind, i.name
  ),
  known (kind, name, cause, parameter) AS (
    VALUES
      ('irq', 'local_timer', 'tick', 'nohz_full'),
      ('softirq', 'SCHED', 'tick', 'nohz_full'),
      ('softirq', 'TIMER', 'timer', 'nohz_full'),
      ('softirq', 'HRTIMER', 'timer', 'nohz_full'),
      ('softirq', 'RCU', 'rcu', 'rcu_nocbs'),
      ('irq', 'reschedule', 'ipi', NULL),
      ('irq', 'call_function', 'ipi', NULL),
      ('irq', 'call_function_single', 'ipi', NULL),
      ('irq', 'irq_work', 'ipi', NULL)
  )
SELECT
  -- Recording.
  seen.trace_id,
  -- Isolated logical CPU.
  seen.cpu,
  -- tick, timer, rcu, ipi, device (an interrupt handler), or softirq.
  coalesce(known.cause, CASE WHEN seen.kind = 'irq' THEN 'device' ELSE 'softirq' END) AS cause,
  -- Name of the vector, handler or softirq; null if not recorded.
  seen.name,
  -- How often it ran.
  seen.count,
  -- The same per second of the window.
  seen.per_s,
  -- Time in it, ns, without runs whose end is not recorded. (no bounds)
  seen.run_ns::BIGINT AS run_ns,
  -- Longest run, ns. (no bounds)
  seen.longest_ns,
  -- Kernel parameter that keeps it away; null: none does, another CPU caused it.
  CASE WHEN known.cause IS NULL THEN 'irqaffinity' ELSE known.parameter END AS parameter,
FROM seen
LEFT JOIN known ON known.kind = seen.kind AND known.name = seen.name
ORDER BY seen.trace_id, seen.cpu, seen.count DESC, seen.kind, seen.name;
