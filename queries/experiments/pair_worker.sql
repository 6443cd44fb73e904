-- Each worker of each run of the experiment `pairs`: its speed alongside the other worker, compared
-- with running alone on a core of the same type in the same repeat.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
WITH
  place AS (
    SELECT trace_id, cpu, arg_max(core_type, from_ns) AS core_type
    FROM topology()
    GROUP BY trace_id, cpu
  ),
  counted AS (
    SELECT
      w.trace_id,
      w.worker,
      sum(d.delta) FILTER (WHERE d.counter = 'instructions')
        / nullif(sum(d.delta) FILTER (WHERE d.counter = 'cycles'), 0)::DOUBLE AS ipc,
    FROM run_worker AS w
    JOIN counter_delta AS d
      ON d.trace_id = w.trace_id AND d.utid = w.utid AND d.ts >= w.start_ns AND d.ts < w.end_ns
    GROUP BY w.trace_id, w.worker
  ),
  -- A worker is pinned, so it has one core type.
  bound AS (
    SELECT w.trace_id, w.worker, b.* EXCLUDE (trace_id)
    FROM run_worker AS w
    JOIN cache_bound() AS b ON b.utid = w.utid
    QUALIFY row_number() OVER (PARTITION BY w.trace_id, w.worker ORDER BY b.dur DESC) = 1
  ),
  ran AS (
    SELECT
      c.trace_id,
      c.cell,
      c.place,
      c.repeat,
      e.worker,
      e.label,
      e.kernel,
      t.cpu,
      place.core_type,
      t.unit,
      coalesce(t.batch_per_s, t.per_s) AS per_s,
      e.ns_per_iteration,
      e.cycles_per_iteration,
      coalesce(
        counted.ipc,
        e.instructions_per_iteration / nullif(e.cycles_per_iteration, 0)
      ) AS ipc,
      CASE
        WHEN counted.ipc IS NOT NULL THEN 'counters'
        WHEN e.instructions_per_iteration / nullif(e.cycles_per_iteration, 0) IS NOT NULL
          THEN 'instructions of the loop'
      END AS ipc_basis,
      coalesce(e.ghz_during, (e.ghz_before + e.ghz_after) / 2) AS ghz,
      100.0 * (e.ghz_after / nullif(e.ghz_before, 0) - 1) AS drift_pct,
      e.predicted_slowdown,
      e.predicted_basis,
      d.is_disturbed,
      bound.l2_misses_per_1000,
      bound.l3_misses_per_1000,
      bound.l3_bound_pct,
      bound.memory_bound_pct,
      bound.retiring_pct,
      bound.bad_speculation_pct,
      bound.frontend_pct,
      bound.backend_pct,
      bound.port_pct,
    FROM experiment_cell AS c
    JOIN experiment_worker AS e USING (trace_id)
    JOIN worker_throughput() AS t
      ON t.trace_id = c.trace_id AND t.worker = e.worker
    JOIN run ON run.trace_id = c.trace_id AND run.status = 'ok'
    LEFT JOIN place ON place.trace_id = c.trace_id AND place.cpu = t.cpu
    LEFT JOIN counted ON counted.trace_id = c.trace_id AND counted.worker = e.worker
    LEFT JOIN bound ON bound.trace_id = c.trace_id AND bound.worker = e.worker
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    WHERE c.experiment = 'pairs'
  ),
  quiet AS (
    SELECT
      label,
      core_type,
      median(per_s) AS per_s,
      median(cycles_per_iteration) AS cycles,
      median(ghz) AS ghz,
    FROM ran
    WHERE place = 'alone' AND NOT coalesce(is_disturbed, FALSE)
    GROUP BY label, core_type
  ),
  alone AS (
    SELECT
      a.label,
      a.core_type,
      a.repeat,
      -- A disturbed run is no baseline for other runs.
      coalesce(
        median(a.per_s) FILTER (WHERE NOT coalesce(a.is_disturbed, FALSE)),
        any_value(quiet.per_s),
        median(a.per_s)
      ) AS per_s,
      coalesce(
        median(a.cycles_per_iteration) FILTER (WHERE NOT coalesce(a.is_disturbed, FALSE)),
        any_value(quiet.cycles),
        median(a.cycles_per_iteration)
      ) AS cycles,
      coalesce(
        median(a.ghz) FILTER (WHERE NOT coalesce(a.is_disturbed, FALSE)),
        any_value(quiet.ghz),
        median(a.ghz)
      ) AS ghz,
    FROM ran AS a
    LEFT JOIN quiet
      ON quiet.label = a.label AND quiet.core_type IS NOT DISTINCT FROM a.core_type
    WHERE a.place = 'alone'
    GROUP BY a.label, a.core_type, a.repeat
  )
SELECT
  -- Recording of the run.
  ran.trace_id,
  -- Name of the cell, the same in every repeat.
  ran.cell,
  -- Relation of the two CPUs; alone: a single worker.
  ran.place,
  -- Number of the repeat, from 1.
  ran.repeat,
  -- Number of the worker: 0 or 1.
  ran.worker,
  -- Kernel, with its variant if one was chosen.
  ran.label,
  -- Logical CPU it was pinned to.
  ran.cpu,
  -- Core type of that CPU; null if unknown.
  ran.core_type,
  -- Unit of work: bytes or iterations.
  ran.unit,
  -- Work per second, median over its batches.
  ran.per_s,
  -- Median length of an iteration, ns. (exact)
  ran.ns_per_iteration,
  -- Median length of an iteration, core cycles.
  ran.cycles_per_iteration,
  -- Instructions per core cycle; null if unknown.
  ran.ipc,
  -- Where ipc comes from: counters, or the known instructions of the loop; null if unknown.
  ran.ipc_basis,
  -- Clock of its core during its interval, GHz, measured with 64 dependent additions.
  ran.ghz,
  -- Change of this clock from the start to the end of the interval, percent; null if unknown.
  ran.drift_pct,
  -- Whether the clock changed by more than 2 %.
  coalesce(abs(ran.drift_pct) > 2, FALSE) AS is_drifting,
  -- Work per second of the same kernel alone on a core of this type, in the same repeat or, if that
  -- was disturbed, over all undisturbed ones; null if not measured.
  alone.per_s AS alone_per_s,
  -- How many times longer its work takes than alone; null if that was not measured.
  alone.per_s / nullif(ran.per_s, 0) AS slowdown,
  -- The same in core cycles, which does not follow the clock; null if that was not measured.
  ran.cycles_per_iteration / nullif(alone.cycles, 0) AS slowdown_cycles,
  -- Clock alone divided by the clock here: the part of the slowdown that the clock explains.
  alone.ghz / nullif(ran.ghz, 0) AS clock_factor,
  -- Expected slowdown; null if unknown.
  ran.predicted_slowdown,
  -- What the expectation is based on.
  ran.predicted_basis,
  -- Whether other programs or the hypervisor disturbed the run; null if unknown.
  ran.is_disturbed,
  -- L2 misses per 1000 instructions; null if not counted (cache_bound).
  ran.l2_misses_per_1000,
  -- L3 misses per 1000 instructions; null if not counted (cache_bound).
  ran.l3_misses_per_1000,
  -- Cycles stalled on loads that missed L2 and hit L3, percent; null if not counted (cache_bound).
  ran.l3_bound_pct,
  -- Cycles stalled on loads that missed L3, percent; null if not counted (cache_bound).
  ran.memory_bound_pct,
  -- Slots that retired operations, percent (top-down level 1); null if not counted (cache_bound).
  ran.retiring_pct,
  -- Slots spent on operations that did not retire, percent; null if not counted (cache_bound).
  ran.bad_speculation_pct,
  -- Slots without an operation from the front end, percent; null if not counted (cache_bound).
  ran.frontend_pct,
  -- Slots that waited for the back end, percent; null if not counted (cache_bound).
  ran.backend_pct,
  -- Micro-operations on each execution port that was counted, percent of cycles; null if none was.
  ran.port_pct,
FROM ran
LEFT JOIN alone
  ON alone.label = ran.label
  AND alone.core_type IS NOT DISTINCT FROM ran.core_type
  AND alone.repeat = ran.repeat
WHERE p_trace_id IS NULL OR ran.trace_id = p_trace_id
ORDER BY ran.cell, ran.repeat, ran.worker, ran.trace_id;
