-- Which questions each recording can answer, and for those it cannot, why not and what to record.
-- p_trace_id: only this recording; null for all.
WITH
  recording AS (
    SELECT trace_id, source
    FROM trace
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  fact AS (
    SELECT trace_id, 'switch' AS kind, count(*) AS n FROM context_switch GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'state', count(*) FROM context_switch
    WHERE prev_state IS NOT NULL OR prev_wait_reason IS NOT NULL GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'waking', count(*) FROM wakeup GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'core', count(*) FROM cpu WHERE core IS NOT NULL GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'sibling', count(*) FROM cpu WHERE smt_index > 0 GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'core_type', count(*) FROM cpu WHERE core_type IS NOT NULL GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'hybrid', count(*) FROM cpu WHERE core_type IN ('E', 'LP-E') GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'affinity', count(*) FROM affinity
    WHERE source <> 'kernel_thread' GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'idle', count(*) FROM cpu_idle GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'frequency', count(*) FROM cpu_frequency GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'interrupt', count(*) FROM interrupt_slice GROUP BY ALL
    UNION ALL
    -- A count of 0 says that the event was recorded.
    SELECT trace_id, 'yield', count(*) FROM record_count
    WHERE record LIKE '%sched_yield%' GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'cgroup', count(*) FROM snapshot_cgroup GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'snapshot', count(DISTINCT edge) FROM snapshot_cpu GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'worker', count(*) FROM run_worker GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'baseline', count(baseline_per_s) FROM run GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'counter', count(*) FROM counter_sample GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'isolated', count(*) FROM machine_setting
    WHERE key = 'isolated_cpus' GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'priority', count(priority) FROM sched_slice WHERE NOT is_idle GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'base', count(base_priority) FROM thread GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'boost', count(*) FROM priority_change GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'parking', count(*) FROM cpu_parking GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'initial', count(*) FROM cpu_parking WHERE ts IS NULL OR ts <= 0 GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'frame', count(*) FROM frame GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'path', count(*) FROM frame_path GROUP BY ALL
    UNION ALL
    SELECT trace_id, 'pinned', count(cpu) FROM run_worker GROUP BY ALL
  ),
  wide AS (
    SELECT
      trace_id,
      coalesce(max(n) FILTER (WHERE kind = 'switch'), 0) > 0 AS switches,
      coalesce(max(n) FILTER (WHERE kind = 'state'), 0) > 0 AS states,
      coalesce(max(n) FILTER (WHERE kind = 'waking'), 0) > 0 AS wakings,
      coalesce(max(n) FILTER (WHERE kind = 'core'), 0) > 0 AS cores,
      coalesce(max(n) FILTER (WHERE kind = 'sibling'), 0) > 0 AS siblings,
      coalesce(max(n) FILTER (WHERE kind = 'core_type'), 0) > 0 AS core_types,
      coalesce(max(n) FILTER (WHERE kind = 'hybrid'), 0) > 0 AS hybrid,
      coalesce(max(n) FILTER (WHERE kind = 'affinity'), 0) > 0 AS affinities,
      coalesce(max(n) FILTER (WHERE kind = 'idle'), 0) > 0 AS idles,
      coalesce(max(n) FILTER (WHERE kind = 'frequency'), 0) > 0 AS frequencies,
      coalesce(max(n) FILTER (WHERE kind = 'interrupt'), 0) > 0 AS interrupts,
      coalesce(max(n) FILTER (WHERE kind = 'yield'), 0) > 0 AS yields,
      coalesce(max(n) FILTER (WHERE kind = 'cgroup'), 0) > 0 AS cgroups,
      coalesce(max(n) FILTER (WHERE kind = 'snapshot'), 0) = 2 AS snapshots,
      coalesce(max(n) FILTER (WHERE kind = 'worker'), 0) > 0 AS workers,
      coalesce(max(n) FILTER (WHERE kind = 'baseline'), 0) > 0 AS baselines,
      coalesce(max(n) FILTER (WHERE kind = 'counter'), 0) > 0 AS counters,
      coalesce(max(n) FILTER (WHERE kind IN ('isolated', 'pinned')), 0) > 0 AS reserved,
      coalesce(max(n) FILTER (WHERE kind = 'priority'), 0) > 0 AS priorities,
      coalesce(max(n) FILTER (WHERE kind = 'base'), 0) > 0 AS bases,
      coalesce(max(n) FILTER (WHERE kind = 'boost'), 0) > 0 AS boosts,
      coalesce(max(n) FILTER (WHERE kind = 'parking'), 0) > 0 AS parkings,
      coalesce(max(n) FILTER (WHERE kind = 'initial'), 0) > 0 AS initials,
      coalesce(max(n) FILTER (WHERE kind = 'frame'), 0) > 0 AS frames,
      coalesce(max(n) FILTER (WHERE kind = 'path'), 0) > 0 AS paths,
    FROM recording
    LEFT JOIN fact USING (trace_id)
    GROUP BY trace_id
  ),
  -- What would record each kind of fact: perf's event, or the keyword of a Windows recorder.
  means (need, perf, etw) AS (
    VALUES
      ('switches', 'perf record -a -e sched:sched_switch', 'CSwitch'),
      ('states', 'perf record -a -e sched:sched_switch', 'CSwitch'),
      ('wakings', 'perf record -a -e sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new',
        'CSwitch+ReadyThread'),
      ('cores', 'perf record without -B -N, or collect',
        'analyze --topology FILE: docs/windows-traces.md'),
      ('core_types', 'collect',
        'Microsoft-Windows-Kernel-Processor-Power, or analyze --topology FILE'),
      ('affinities', 'collect', 'ProcessThread'),
      ('idles', 'perf record -a -e power:cpu_idle', 'IdleStates'),
      ('frequencies', 'perf record -a -e power:cpu_frequency',
        'Microsoft-Windows-Kernel-Processor-Power'),
      ('interrupts', 'perf record -a -e irq:softirq_entry,irq:softirq_exit', 'DPC+Interrupt'),
      ('yields', 'perf record -a -e syscalls:sys_enter_sched_yield', 'CSwitch'),
      ('cgroups', 'collect', NULL),
      ('snapshots', 'collect', NULL),
      ('priorities', 'perf record -a -e sched:sched_switch', 'CSwitch'),
      ('bases', NULL, 'ProcessThread'),
      ('boosts', NULL, 'ThreadPriority'),
      ('parkings', NULL, 'Microsoft-Windows-Kernel-Processor-Power'),
      ('initials', NULL, 'Microsoft-Windows-Kernel-Processor-Power with CaptureStateOnSave'),
      ('frames', 'analyze perf.data FRAMES.csv (a PresentMon file of the same run)',
        'Microsoft-Windows-DXGI, or analyze TRACE FRAMES.csv (a PresentMon file of the same run)'),
      ('paths', 'perf record -a -e sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new',
        'CSwitch+ReadyThread'),
      ('workers', 'collect --workload NAME', 'collect --workload NAME'),
      ('baselines', 'collect --workload NAME', 'collect --workload NAME'),
      ('counters', 'collect on a machine with a PMU, or collect --counters EVENT',
        'HardwareCounter')
  ),
  need AS (
    SELECT trace_id, question, need, why, met, limits
    FROM (
      SELECT
        trace_id,
        unnest([
          {question: 'thread_summary', need: 'switches', met: switches, limits: FALSE,
            why: 'no context switches'},
          {question: 'thread_summary', need: 'wakings', met: wakings, limits: TRUE,
            why: 'no wakings: ready time after a wait is unknown'},
          {question: 'ready_obstacle', need: 'wakings', met: wakings, limits: FALSE,
            why: 'no wakings: ready time after a wait is unknown'},
          {question: 'ready_obstacle', need: 'affinities', met: affinities, limits: TRUE,
            why: 'allowed CPUs are unknown: taken as those a thread was seen on'},
          {question: 'worst_waits', need: 'wakings', met: wakings, limits: FALSE,
            why: 'no wakings: ready time after a wait is unknown'},
          {question: 'waker_pair', need: 'wakings', met: wakings, limits: FALSE,
            why: 'no wakings'},
          {question: 'concurrency', need: 'switches', met: switches, limits: FALSE,
            why: 'no context switches'},
          {question: 'sibling_overlap', need: 'switches', met: switches, limits: FALSE,
            why: 'no context switches'},
          {question: 'sibling_overlap', need: 'cores', met: cores, limits: FALSE,
            why: 'which logical CPUs share a core is unknown'},
          {question: 'sibling_overlap', need: NULL, met: siblings OR NOT cores, limits: FALSE,
            why: 'no core has siblings'},
          {question: 'sibling_overlap', need: 'interrupts', met: interrupts, limits: TRUE,
            why: 'no interrupt work: a sibling busy with it looks idle'},
          {question: 'avoidable_sharing', need: 'cores', met: cores AND switches, limits: FALSE,
            why: 'which logical CPUs share a core is unknown'},
          {question: 'avoidable_sharing', need: NULL, met: siblings OR NOT cores, limits: FALSE,
            why: 'no core has siblings'},
          {question: 'avoidable_sharing', need: 'affinities', met: affinities, limits: TRUE,
            why: 'allowed CPUs are unknown: taken as those a thread was seen on'},
          {question: 'quantum_end_chain', need: 'states', met: states, limits: FALSE,
            why: 'the state in which threads leave is not recorded'},
          {question: 'quantum_end_chain', need: 'yields', met: yields OR source = 'etw',
            limits: TRUE, why: 'yields are not recorded: a quantum end may be one'},
          {question: 'core_type_residency', need: 'core_types', met: core_types AND switches,
            limits: FALSE, why: 'the core types are unknown'},
          {question: 'core_type_residency', need: NULL, met: hybrid OR NOT core_types,
            limits: TRUE, why: 'all cores are of one type'},
          {question: 'idle_state', need: 'idles', met: idles, limits: FALSE,
            why: 'no idle states'},
          {question: 'frequency', need: 'frequencies', met: frequencies, limits: FALSE,
            why: 'no changes of frequency'},
          {question: 'interrupt_time', need: 'interrupts', met: interrupts, limits: FALSE,
            why: 'no interrupt work'},
          {question: 'throttled_cgroup', need: 'cgroups', met: cgroups, limits: FALSE,
            why: 'no snapshots of cgroups'},
          {question: 'pinned_cpu_visitor', need: 'affinities', met: affinities OR reserved,
            limits: FALSE, why: 'neither pinned threads nor isolated CPUs are known'},
          {question: 'steal', need: 'snapshots', met: snapshots, limits: FALSE,
            why: 'no snapshots of what the system counts'},
          {question: 'reported_vs_real', need: 'snapshots', met: snapshots, limits: FALSE,
            why: 'no snapshots of what the system counts'},
          {question: 'run_throughput', need: 'workers', met: workers, limits: FALSE,
            why: 'no workload of known work'},
          {question: 'scaling_curve', need: 'workers', met: workers, limits: FALSE,
            why: 'no workload of known work'},
          {question: 'smt_yield', need: 'workers', met: workers, limits: FALSE,
            why: 'no workload of known work'},
          {question: 'smt_yield', need: NULL, met: siblings OR NOT cores, limits: FALSE,
            why: 'no core has siblings'},
          {question: 'run_clock_check', need: 'workers', met: workers, limits: FALSE,
            why: 'no workload of known work'},
          {question: 'recorder_cost', need: 'baselines', met: baselines, limits: FALSE,
            why: 'no run without the recorder to compare with'},
          {question: 'core_choice', need: 'core_types', met: core_types AND switches,
            limits: FALSE, why: 'the core types are unknown'},
          {question: 'core_choice', need: NULL, met: hybrid OR NOT core_types,
            limits: TRUE, why: 'all cores are of one type'},
          {question: 'core_choice', need: 'affinities', met: affinities, limits: TRUE,
            why: 'allowed CPUs are unknown: taken as those a thread was seen on'},
          {question: 'core_choice', need: 'initials', met: initials OR source <> 'etw',
            limits: TRUE, why: 'what is parked at the begin is unknown: no core counts as free'},
          {question: 'smt_comparison', need: 'cores', met: cores AND switches, limits: FALSE,
            why: 'which logical CPUs share a core is unknown'},
          {question: 'smt_comparison', need: NULL, met: siblings OR NOT cores, limits: FALSE,
            why: 'no core has siblings'},
          {question: 'oversubscription', need: 'switches', met: switches, limits: FALSE,
            why: 'no context switches'},
          {question: 'priority_order', need: 'priorities', met: priorities, limits: FALSE,
            why: 'no priorities'},
          {question: 'background_running', need: 'priorities', met: priorities, limits: FALSE,
            why: 'no priorities'},
          {question: 'background_running', need: 'wakings', met: wakings, limits: TRUE,
            why: 'no wakings: ready time after a wait is unknown'},
          {question: 'priority_share', need: 'priorities', met: priorities, limits: FALSE,
            why: 'no priorities'},
          {question: 'priority_share', need: 'wakings', met: wakings, limits: TRUE,
            why: 'no wakings: ready time after a wait is unknown'},
          {question: 'priority_boost', need: 'bases', met: bases, limits: FALSE,
            why: 'no base priorities'},
          {question: 'priority_boost', need: 'boosts', met: boosts, limits: TRUE,
            why: 'boosts and their decay are not recorded: only stays above the base are seen'},
          {question: 'frame_time', need: 'frames', met: frames, limits: FALSE, why: 'no frames'},
          {question: 'frame_concurrency', need: 'frames', met: frames, limits: FALSE,
            why: 'no frames'},
          {question: 'path_thread', need: 'frames', met: frames, limits: FALSE, why: 'no frames'},
          {question: 'path_thread', need: 'paths', met: paths OR NOT frames, limits: FALSE,
            why: 'no critical path: frames without their thread, or no wakings'},
          {question: 'short_run', need: 'wakings', met: wakings, limits: FALSE, why: 'no wakings'},
          {question: 'parking', need: 'parkings', met: parkings OR source <> 'etw',
            limits: FALSE, why: 'no parking'},
          {question: 'parking', need: 'initials', met: initials OR source <> 'etw',
            limits: TRUE, why: 'what is parked at the begin is unknown'},
          {question: 'frame_parking', need: 'frames', met: frames, limits: FALSE,
            why: 'no frames'},
          {question: 'frame_parking', need: 'parkings', met: parkings OR source <> 'etw',
            limits: FALSE, why: 'no parking'},
          {question: 'parallel_section', need: 'wakings', met: wakings, limits: FALSE,
            why: 'no wakings: ready time after a wait is unknown'},
          {question: 'smt_tax', need: 'counters', met: counters, limits: FALSE,
            why: 'no counters at switches'},
          {question: 'smt_tax', need: NULL, met: siblings OR NOT cores, limits: FALSE,
            why: 'no core has siblings'},
          {question: 'thread_cpi', need: 'counters', met: counters, limits: FALSE,
            why: 'no counters at switches'},
          {question: 'turbo_slope', need: 'frequencies', met: frequencies, limits: FALSE,
            why: 'no changes of frequency'},
          {question: 'pinned_sibling', need: 'affinities', met: affinities, limits: FALSE,
            why: 'allowed CPUs are unknown'},
          {question: 'pinned_sibling', need: NULL, met: siblings OR NOT cores, limits: FALSE,
            why: 'no core has siblings'},
          {question: 'counter_delta', need: 'counters', met: counters, limits: FALSE,
            why: 'no counters at switches'}
        ], recursive := TRUE),
      FROM wide
      JOIN recording USING (trace_id)
    ) AS every
  )
SELECT
  -- Recording.
  need.trace_id,
  -- The question, the table, or the analyzer that asks several questions.
  need.question,
  -- yes; partly: with a limit, which `why` names; no.
  CASE
    WHEN bool_and(met) THEN 'yes'
    WHEN bool_and(met OR limits) THEN 'partly'
    ELSE 'no'
  END AS answer,
  -- What is missing; null if nothing.
  string_agg(DISTINCT need.why, '; ' ORDER BY need.why) FILTER (WHERE NOT met) AS why,
  -- What would record it; null if nothing is missing, or if nothing can.
  string_agg(
    DISTINCT CASE recording.source WHEN 'etw' THEN means.etw ELSE means.perf END, '; '
    ORDER BY CASE recording.source WHEN 'etw' THEN means.etw ELSE means.perf END
  ) FILTER (WHERE NOT met) AS record_with,
FROM need
JOIN recording USING (trace_id)
LEFT JOIN means ON means.need = need.need
GROUP BY need.trace_id, need.question
ORDER BY need.trace_id, need.question;
