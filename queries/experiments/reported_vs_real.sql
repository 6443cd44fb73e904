-- CPU use that the system reports for each step, compared with what is really used: busy logical
-- CPUs, headroom for work given the yield of the second thread, and use of the limiting port where
-- it is known. The system reports a core with one busy and one idle logical CPU as half busy,
-- however little capacity is left.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  place AS (
    SELECT
      trace_id,
      coalesce(arg_max(core, from_ns), cpu) AS core,
      arg_max(core_type, from_ns) AS core_type,
    FROM topology(p_trace_id)
    GROUP BY trace_id, cpu
  ),
  core_of AS (
    SELECT trace_id, core, any_value(core_type) AS core_type
    FROM place
    GROUP BY trace_id, core
  ),
  counted AS (FROM steal(p_trace_id)),
  reported AS (
    SELECT
      trace_id,
      100.0 * sum(user_ns + system_ns + irq_ns + softirq_ns)
        / nullif(sum(user_ns + system_ns + irq_ns + softirq_ns + idle_ns + steal_ns), 0)
        AS busy_pct,
      100.0 * sum(steal_ns)
        / nullif(sum(user_ns + system_ns + irq_ns + softirq_ns + idle_ns + steal_ns), 0)
        AS stolen_pct,
    FROM counted
    GROUP BY trace_id
  ),
  traced AS (
    SELECT
      trace_id,
      100.0 * sum(thread_ns + interrupt_ns)
        / nullif(sum(thread_ns + interrupt_ns + idle_ns), 0) AS busy_pct,
    FROM cpu_time(p_trace_id, p_from_ns, p_to_ns)
    GROUP BY trace_id
  ),
  piece AS (
    SELECT
      c.trace_id,
      c.core,
      c.online,
      c.busy,
      clipped_ns(c.ts, c.dur, start_ns, end_ns) AS dur,
    FROM core_state AS c
    JOIN span USING (trace_id)
    WHERE c.unknown = 0 AND c.online > 0 AND c.ts < end_ns AND c.ts + c.dur > start_ns
  ),
  core AS (
    SELECT
      piece.trace_id,
      piece.core,
      core_of.core_type,
      max(online) AS online,
      sum(dur)::DOUBLE AS known_ns,
      coalesce(sum(dur) FILTER (WHERE busy = 1 AND online = 1), 0)::DOUBLE AS whole_ns,
      coalesce(sum(dur) FILTER (WHERE busy = 1 AND online > 1), 0)::DOUBLE AS one_ns,
      coalesce(sum(dur) FILTER (WHERE busy > 1), 0)::DOUBLE AS both_ns,
    FROM piece
    LEFT JOIN core_of ON core_of.trace_id = piece.trace_id AND core_of.core = piece.core
    GROUP BY piece.trace_id, piece.core, core_of.core_type
  ),
  measured AS (FROM smt_yield()),
  every AS (
    SELECT core_type, min(yield) AS low, max(yield) AS high
    FROM measured
    WHERE yield IS NOT NULL
    GROUP BY core_type
  ),
  -- What the machine's calibration adds to these recordings.
  calibrated AS (
    SELECT
      trace_id,
      core_type,
      min(yield) AS low,
      max(yield) AS high,
      min(measured_utc) AS measured_utc,
    FROM calibration
    WHERE yield IS NOT NULL
    GROUP BY trace_id, core_type
  ),
  weighed AS (
    SELECT
      core.*,
      run.workload,
      run.variant,
      own.yield IS NOT NULL AS is_own,
      coalesce(own.yield, kept.yield, every.low, calibrated.low, 1.0) AS low,
      coalesce(own.yield, kept.yield, every.high, calibrated.high, 2.0) AS high,
      every.low IS NOT NULL AS is_calibrated,
      own.yield IS NULL AND (kept.yield IS NOT NULL OR (every.low IS NULL AND calibrated.low IS NOT NULL))
        AS is_kept,
      kept.yield IS NOT NULL AS is_kept_own,
      coalesce(kept.measured_utc, calibrated.measured_utc) AS kept_utc,
      CASE
        WHEN bool_and(own.alone_per_s IS NOT NULL) OVER (PARTITION BY core.trace_id)
          THEN own.alone_per_s
        ELSE 1.0
      END AS speed,
      bool_and(own.alone_per_s IS NOT NULL) OVER (PARTITION BY core.trace_id) AS speed_known,
      TRY_CAST(nullif(regexp_extract(run.workload, '^imul([0-9]+)$', 1), '') AS INTEGER) AS chains,
      -- A series that ended before its knee gives a lower bound.
      CASE
        WHEN multiplier.knee IS NOT NULL THEN multiplier.slots
        ELSE greatest(coalesce(multiplier.slots, 3), 3)
      END AS slots,
      multiplier.knee IS NOT NULL AS slots_measured,
    FROM core
    LEFT JOIN run USING (trace_id)
    LEFT JOIN measured AS own
      ON own.workload = run.workload
      AND own.variant IS NOT DISTINCT FROM run.variant
      AND own.core_type IS NOT DISTINCT FROM core.core_type
    LEFT JOIN calibration AS kept
      ON kept.trace_id = core.trace_id
      AND kept.workload = run.workload
      AND kept.variant IS NOT DISTINCT FROM run.variant
      AND kept.core_type IS NOT DISTINCT FROM core.core_type
    LEFT JOIN every ON every.core_type IS NOT DISTINCT FROM core.core_type
    LEFT JOIN calibrated
      ON calibrated.trace_id = core.trace_id
      AND calibrated.core_type IS NOT DISTINCT FROM core.core_type
    LEFT JOIN multiplier_slots() AS multiplier
      ON multiplier.core_type IS NOT DISTINCT FROM core.core_type
  ),
  work AS (
    SELECT
      *,
      whole_ns + (one_ns + low * both_ns) / greatest(1.0, low) AS at_low,
      whole_ns + (one_ns + high * both_ns) / greatest(1.0, high) AS at_high,
      whole_ns + one_ns + both_ns AS at_one,
      -- least() ignores NULL.
      CASE WHEN chains IS NOT NULL THEN
        (whole_ns + one_ns) * least(1.0, chains / slots)
        + both_ns * least(1.0, 2.0 * chains / slots)
      END AS port_ns,
    FROM weighed
  ),
  -- Logical CPUs that no core includes.
  without_core AS (
    SELECT trace_id, cpus_without_core
    FROM sibling_overlap_total(p_trace_id, p_from_ns, p_to_ns)
  ),
  machine AS (
    SELECT
      trace_id,
      100.0 * sum(whole_ns + one_ns + both_ns) / nullif(sum(known_ns), 0) AS cores_busy_pct,
      100.0 * sum(both_ns) / nullif(sum(whole_ns + one_ns + both_ns), 0) AS shared_of_busy_pct,
      min(low) FILTER (WHERE online > 1) AS yield_low,
      max(high) FILTER (WHERE online > 1) AS yield_high,
      CASE
        WHEN max(online) < 2 THEN 'no siblings'
        WHEN bool_and(is_own OR online < 2) THEN 'measured'
        WHEN bool_and(is_own OR is_kept_own OR online < 2)
          THEN 'this machine''s calibration of ' || max(kept_utc)
        WHEN bool_and(is_own OR is_calibrated OR online < 2) AND NOT bool_or(is_kept)
          THEN 'range over the kernels measured'
        WHEN bool_and(is_own OR is_calibrated OR is_kept OR online < 2)
          THEN 'range over the kernels of this machine''s calibration of ' || max(kept_utc)
        ELSE 'assumed 1 to 2'
      END
        || CASE
          WHEN count(DISTINCT coalesce(core_type, '?')) > 1 AND NOT bool_and(speed_known)
            THEN '; core types assumed equally fast'
          ELSE ''
        END AS yield_basis,
      100.0 * sum(speed * least(at_low, at_high)) / nullif(sum(speed * known_ns), 0) AS work_low,
      100.0 * sum(speed * CASE
        WHEN low <= 1.0 AND high >= 1.0 THEN greatest(at_low, at_high, at_one)
        ELSE greatest(at_low, at_high)
      END) / nullif(sum(speed * known_ns), 0) AS work_high,
      100.0 * sum(port_ns) / nullif(sum(known_ns), 0) AS port_pct,
      CASE
        WHEN any_value(chains) IS NULL THEN NULL
        WHEN bool_and(slots_measured) THEN 'measured: the knee of imul1, imul2, ...'
        ELSE 'assumed: latency 3, one multiplier per core, unless more was measured'
      END AS port_basis,
    FROM work
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  span.trace_id,
  -- Name of the step; null if the recording is not a step.
  run.step,
  -- Kernel; null if none.
  run.workload,
  -- First of the placements that share this plan.
  run.placement,
  -- Workers.
  run.threads,
  -- Busy share of all logical CPUs as the system counts it between the two snapshots, percent; null
  -- without snapshots. Stolen time does not count as busy. (exact)
  reported.busy_pct AS reported_busy_pct,
  -- Share of that time the hypervisor took, percent; null without snapshots. (exact)
  reported.stolen_pct AS stolen_pct,
  -- Busy share of all logical CPUs in the trace over the window, percent of known time. Stolen time
  -- counts as busy. (no bounds)
  traced.busy_pct AS traced_busy_pct,
  -- Share of cores with at least one busy logical CPU, percent of known time. (no bounds)
  machine.cores_busy_pct,
  -- Core time with more than one busy logical CPU as a share of that with at least one, percent;
  -- null if none is busy. (no bounds)
  machine.shared_of_busy_pct,
  -- Lowest yield Y used; null if no core has siblings.
  machine.yield_low,
  -- Highest yield Y used; null if no core has siblings.
  machine.yield_high,
  -- Where Y comes from: measured, range over the kernels measured, the machine's calibration
  -- (`collect --experiment scaling`), assumed, or no siblings.
  machine.yield_basis,
  -- smt_headroom_work_pct, lower bound: work done in percent of what all cores could do. A core
  -- with both CPUs busy counts Y / max(1, Y), with one busy 1 / max(1, Y), weighted by the speed of
  -- its type. (no bounds)
  machine.work_low AS work_low_pct,
  -- smt_headroom_work_pct, upper bound. (no bounds)
  machine.work_high AS work_high_pct,
  -- Share of the multipliers' issue slots in use over all cores, percent, for the kernels imul1,
  -- imul2, ...: a loop of n chains fills n slots of latency x multipliers. Null for other kernels.
  -- (no bounds)
  machine.port_pct,
  -- What port_pct is based on; null if port_pct is null.
  machine.port_basis,
  -- Logical CPUs whose core is unknown, left out of all shares of cores; null without states.
  without_core.cpus_without_core,
FROM span
LEFT JOIN run USING (trace_id)
LEFT JOIN reported USING (trace_id)
LEFT JOIN traced USING (trace_id)
LEFT JOIN machine USING (trace_id)
LEFT JOIN without_core USING (trace_id)
ORDER BY span.trace_id;
