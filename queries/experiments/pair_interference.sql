-- What two kernels cost each other, for each pair and placement: slowdowns and combined throughput,
-- medians over the repeats with confidence intervals. Disturbed repeats are left out if the same
-- cell has others.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  both_workers AS (
    SELECT
      a.trace_id,
      a.cell,
      a.place,
      a.repeat,
      a.label AS first,
      b.label AS second,
      [a.cpu, b.cpu] AS cpus,
      a.slowdown AS first_slowdown,
      b.slowdown AS second_slowdown,
      a.slowdown_cycles AS first_slow_cycles,
      b.slowdown_cycles AS second_slow_cycles,
      a.clock_factor AS first_factor,
      b.clock_factor AS second_factor,
      a.is_drifting OR b.is_drifting AS is_drifting,
      1 / nullif(a.slowdown, 0) + 1 / nullif(b.slowdown, 0) AS combined,
      a.ns_per_iteration AS first_ns,
      b.ns_per_iteration AS second_ns,
      a.cycles_per_iteration AS first_cycles,
      b.cycles_per_iteration AS second_cycles,
      a.ipc AS first_ipc,
      b.ipc AS second_ipc,
      a.l2_misses_per_1000 AS first_l2_misses_per_1000,
      a.l3_misses_per_1000 AS first_l3_misses_per_1000,
      a.l3_bound_pct AS first_l3_bound_pct,
      a.memory_bound_pct AS first_memory_bound_pct,
      a.retiring_pct AS first_retiring_pct,
      a.bad_speculation_pct AS first_bad_speculation_pct,
      a.frontend_pct AS first_frontend_pct,
      a.backend_pct AS first_backend_pct,
      a.port_pct AS first_port_pct,
      b.l2_misses_per_1000 AS second_l2_misses_per_1000,
      b.l3_misses_per_1000 AS second_l3_misses_per_1000,
      b.l3_bound_pct AS second_l3_bound_pct,
      b.memory_bound_pct AS second_memory_bound_pct,
      b.retiring_pct AS second_retiring_pct,
      b.bad_speculation_pct AS second_bad_speculation_pct,
      b.frontend_pct AS second_frontend_pct,
      b.backend_pct AS second_backend_pct,
      b.port_pct AS second_port_pct,
      a.predicted_slowdown AS first_predicted,
      b.predicted_slowdown AS second_predicted,
      coalesce(a.predicted_basis, b.predicted_basis) AS predicted_basis,
      coalesce(a.is_disturbed, FALSE) AS is_disturbed,
      bool_and(coalesce(a.is_disturbed, FALSE)) OVER (PARTITION BY a.cell) AS all_disturbed,
      count(*) OVER (PARTITION BY a.cell) AS every_repeat,
    FROM pair_worker() AS a
    JOIN pair_worker() AS b ON b.trace_id = a.trace_id AND b.worker = 1
    WHERE a.worker = 0 AND a.place <> 'alone'
      AND (p_trace_id IS NULL OR a.trace_id = p_trace_id)
  ),
  measured AS (
    SELECT
      cell,
      any_value(place) AS place,
      any_value(first) AS first,
      any_value(second) AS second,
      any_value(cpus) AS cpus,
      count(combined) AS repeats,
      any_value(every_repeat) - count(*) AS left_out,
      any_value(all_disturbed) AS is_disturbed,
      list_sort(list(first_slowdown) FILTER (WHERE combined IS NOT NULL)) AS firsts,
      list_sort(list(second_slowdown) FILTER (WHERE combined IS NOT NULL)) AS seconds,
      list_sort(list(combined) FILTER (WHERE combined IS NOT NULL)) AS combined,
      list_sort(list(first_slow_cycles) FILTER (WHERE first_slow_cycles IS NOT NULL))
        AS first_cycle_ratios,
      list_sort(list(second_slow_cycles) FILTER (WHERE second_slow_cycles IS NOT NULL))
        AS second_cycle_ratios,
      median(first_factor) AS first_factor,
      median(second_factor) AS second_factor,
      count(*) FILTER (WHERE is_drifting) AS drifting,
      median(first_ns) AS first_ns,
      median(second_ns) AS second_ns,
      median(first_cycles) AS first_cycles,
      median(second_cycles) AS second_cycles,
      median(first_ipc) AS first_ipc,
      median(second_ipc) AS second_ipc,
      median(first_l2_misses_per_1000) AS first_l2_misses_per_1000,
      median(first_l3_misses_per_1000) AS first_l3_misses_per_1000,
      median(first_l3_bound_pct) AS first_l3_bound_pct,
      median(first_memory_bound_pct) AS first_memory_bound_pct,
      median(first_retiring_pct) AS first_retiring_pct,
      median(first_bad_speculation_pct) AS first_bad_speculation_pct,
      median(first_frontend_pct) AS first_frontend_pct,
      median(first_backend_pct) AS first_backend_pct,
      median(second_l2_misses_per_1000) AS second_l2_misses_per_1000,
      median(second_l3_misses_per_1000) AS second_l3_misses_per_1000,
      median(second_l3_bound_pct) AS second_l3_bound_pct,
      median(second_memory_bound_pct) AS second_memory_bound_pct,
      median(second_retiring_pct) AS second_retiring_pct,
      median(second_bad_speculation_pct) AS second_bad_speculation_pct,
      median(second_frontend_pct) AS second_frontend_pct,
      median(second_backend_pct) AS second_backend_pct,
      arg_min(first_port_pct, repeat) AS first_port_pct,
      arg_min(second_port_pct, repeat) AS second_port_pct,
      any_value(first_predicted) AS first_predicted,
      any_value(second_predicted) AS second_predicted,
      any_value(predicted_basis) AS predicted_basis,
    FROM both_workers
    WHERE all_disturbed OR NOT is_disturbed
    GROUP BY cell
  )
SELECT
  -- Name of the cell.
  cell,
  -- Relation of the two CPUs: siblings, same_l2, same_llc, across_llc, across_package, p_beside_e;
  -- two_cpus if the system does not report it.
  place,
  -- Kernel of the first worker, with its variant if one was chosen.
  first,
  -- Kernel of the second worker.
  second,
  -- Logical CPUs of the two.
  cpus,
  -- Repeats used for these numbers.
  repeats,
  -- Repeats left out because they were disturbed.
  left_out,
  -- Whether every repeat was disturbed, so these numbers come from disturbed repeats.
  is_disturbed,
  -- How many times longer the first worker's work takes than alone; null if not measured.
  list_median(firsts) AS first_slowdown,
  -- Lower end of its confidence interval.
  firsts[r.low_rank] AS first_slowdown_low,
  -- Upper end of its confidence interval.
  firsts[r.high_rank] AS first_slowdown_high,
  -- The same for the second worker.
  list_median(seconds) AS second_slowdown,
  -- Lower end of its confidence interval.
  seconds[r.low_rank] AS second_slowdown_low,
  -- Upper end of its confidence interval.
  seconds[r.high_rank] AS second_slowdown_high,
  -- first_slowdown in core cycles instead of time, which does not follow the clock; null if not
  -- measured.
  list_median(first_cycle_ratios) AS first_slowdown_cycles,
  -- Lower end of its confidence interval.
  first_cycle_ratios[c.low_rank] AS first_slowdown_cycles_low,
  -- Upper end of its confidence interval.
  first_cycle_ratios[c.high_rank] AS first_slowdown_cycles_high,
  -- second_slowdown in core cycles.
  list_median(second_cycle_ratios) AS second_slowdown_cycles,
  -- Lower end of its confidence interval.
  second_cycle_ratios[d.low_rank] AS second_slowdown_cycles_low,
  -- Upper end of its confidence interval.
  second_cycle_ratios[d.high_rank] AS second_slowdown_cycles_high,
  -- Clock of the first worker's core alone divided by its clock here, median: the part of
  -- first_slowdown that the clock explains.
  first_factor AS first_clock_factor,
  -- The same for the second worker.
  second_factor AS second_clock_factor,
  -- Repeats in which a clock changed by more than 2 % during the interval.
  drifting,
  -- Combined throughput, each worker relative to running alone: 2 means no cost, 1 means no gain.
  list_median(combined) AS combined,
  -- Lower end of its confidence interval.
  combined[r.low_rank] AS combined_low,
  -- Upper end of its confidence interval.
  combined[r.high_rank] AS combined_high,
  -- Gain from the second thread, percent.
  100.0 * (list_median(combined) - 1) AS added_pct,
  -- Confidence of the intervals, percent.
  r.coverage_pct,
  -- Expected first_slowdown; null if unknown.
  first_predicted,
  -- Expected second_slowdown; null if unknown.
  second_predicted,
  -- What the expectation is based on.
  predicted_basis,
  -- Median length of an iteration of the first, ns. (exact)
  first_ns AS first_iteration_ns,
  -- Median length of an iteration of the second, ns. (exact)
  second_ns AS second_iteration_ns,
  -- Median length of an iteration of the first, core cycles.
  first_cycles,
  -- Median length of an iteration of the second, core cycles.
  second_cycles,
  -- Instructions per core cycle of the first, from counters or the known instructions of its loop;
  -- null if unknown.
  first_ipc,
  -- Instructions per core cycle of the second; null if unknown.
  second_ipc,
  -- L2 misses per 1000 instructions, of the first; null if not counted (cache_bound).
  first_l2_misses_per_1000,
  -- L3 misses per 1000 instructions, of the first; null if not counted (cache_bound).
  first_l3_misses_per_1000,
  -- Cycles stalled on loads that missed L2 and hit L3, percent, of the first; null if not counted (cache_bound).
  first_l3_bound_pct,
  -- Cycles stalled on loads that missed L3, percent, of the first; null if not counted (cache_bound).
  first_memory_bound_pct,
  -- Slots that retired operations, percent (top-down level 1), of the first; null if not counted (cache_bound).
  first_retiring_pct,
  -- Slots spent on operations that did not retire, percent, of the first; null if not counted (cache_bound).
  first_bad_speculation_pct,
  -- Slots without an operation from the front end, percent, of the first; null if not counted (cache_bound).
  first_frontend_pct,
  -- Slots that waited for the back end, percent, of the first; null if not counted (cache_bound).
  first_backend_pct,
  -- Micro-operations of the first on each counted execution port, percent of cycles, in the first
  -- repeat in which they were counted; null if none was.
  first_port_pct,
  -- L2 misses per 1000 instructions, of the second; null if not counted (cache_bound).
  second_l2_misses_per_1000,
  -- L3 misses per 1000 instructions, of the second; null if not counted (cache_bound).
  second_l3_misses_per_1000,
  -- Cycles stalled on loads that missed L2 and hit L3, percent, of the second; null if not counted (cache_bound).
  second_l3_bound_pct,
  -- Cycles stalled on loads that missed L3, percent, of the second; null if not counted (cache_bound).
  second_memory_bound_pct,
  -- Slots that retired operations, percent (top-down level 1), of the second; null if not counted (cache_bound).
  second_retiring_pct,
  -- Slots spent on operations that did not retire, percent, of the second; null if not counted (cache_bound).
  second_bad_speculation_pct,
  -- Slots without an operation from the front end, percent, of the second; null if not counted (cache_bound).
  second_frontend_pct,
  -- Slots that waited for the back end, percent, of the second; null if not counted (cache_bound).
  second_backend_pct,
  -- Micro-operations of the second on each counted execution port, percent of cycles, in the first
  -- repeat in which they were counted; null if none was.
  second_port_pct,
FROM measured
LEFT JOIN median_rank() AS r ON r.n = measured.repeats
LEFT JOIN median_rank() AS c ON c.n = len(measured.first_cycle_ratios)
LEFT JOIN median_rank() AS d ON d.n = len(measured.second_cycle_ratios)
ORDER BY place, first, second;
