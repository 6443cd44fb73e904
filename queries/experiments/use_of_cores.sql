-- The experiment `scaling`, table 1 of the articles: one thread on each core, in loops of one, two
-- and three multiplications. CPU use as the system reports it, work done relative to what the cores
-- could do with their second threads, measured throughput, instructions per cycle and power, and use
-- of the multipliers by a model; medians over the repeats.
-- p_trace_id: only this recording; null for all.
WITH
  joules AS (
    SELECT trace_id, sum(joules) FILTER (WHERE NOT contains(domain, '/')) AS joules
    FROM energy
    GROUP BY trace_id
  ),
  loop AS (
    SELECT
      trace_id,
      median(instructions_per_iteration / nullif(cycles_per_iteration, 0)) AS ipc,
    FROM experiment_worker
    GROUP BY trace_id
  ),
  ran AS (
    SELECT
      c.cell,
      r.*,
      coalesce(t.batch_per_s, t.per_s) AS work_per_s,
      t.unit,
      loop.ipc,
      1e9 * joules.joules / nullif(c.energy_ns, 0) AS watts,
    FROM experiment_cell AS c
    JOIN reported_vs_real() AS r USING (trace_id)
    LEFT JOIN run_throughput() AS t USING (trace_id)
    LEFT JOIN loop USING (trace_id)
    LEFT JOIN joules USING (trace_id)
    WHERE c.experiment = 'scaling' AND c.place = 'table'
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  )
SELECT
  -- Kernel: imul1, imul2 or imul3.
  workload,
  -- Workers, one on each core.
  any_value(threads) AS threads,
  -- Repeats used for these numbers.
  count(*)::INTEGER AS repeats,
  -- Busy share of all logical CPUs as the system counts it, percent; null without snapshots.
  -- (exact)
  median(reported_busy_pct) AS reported_busy_pct,
  -- Work done in percent of what the cores could do (smt_headroom_work_pct), lower bound.
  -- (no bounds)
  median(work_low_pct) AS work_low_pct,
  -- The same, upper bound. (no bounds)
  median(work_high_pct) AS work_high_pct,
  -- Where the yield Y comes from.
  any_value(yield_basis) AS yield_basis,
  -- Unit of work: bytes or iterations.
  any_value(unit) AS unit,
  -- Work per second of all workers together, measured.
  median(work_per_s) AS per_s,
  -- Instructions per core cycle of a worker, from the known instructions of its loop and its measured
  -- cycles; null if unknown.
  median(ipc) AS ipc,
  -- Power of all packages, watts; null if it cannot be read.
  median(watts) AS watts,
  -- Energy of all packages for 1,000,000,000 units of work, joules; null if it cannot be read.
  1e9 * median(watts / nullif(work_per_s, 0)) AS joules_per_giga,
  -- A model, not a measurement: share of the multipliers' issue slots in use over all cores, percent.
  -- (no bounds)
  median(port_pct) AS port_pct,
  -- What port_pct is based on.
  any_value(port_basis) AS port_basis,
FROM ran
GROUP BY workload
ORDER BY workload;
