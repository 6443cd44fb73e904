-- Which kinds of events and facts each recording contains, which decides which analyzers run. One
-- row per recording and kind.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
WITH
  recording AS (
    SELECT trace_id, source
    FROM trace
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  -- How trace-cmd records those that it can.
  kind_of_trace_cmd (kind, options) AS (
    VALUES
      ('switches', ' -e sched'),
      ('all_threads', ' -e sched'),
      ('states', ' -e sched'),
      ('wakeups', ' -e sched'),
      ('priorities', ' -e sched'),
      ('idles', ' -e sched -e cpu_idle'),
      ('frequencies', ' -e sched -e cpu_frequency'),
      ('interrupts', ' -e sched -e irq'),
      ('yields', ' -e sched -e syscalls:sys_enter_sched_yield'),
      ('disk_requests', ' -e sched -e block:block_rq_issue -e block:block_rq_complete'),
      ('page_faults', ' -e sched -e exceptions'),
      ('paths', ' -e sched')
  ),
  -- How to record each kind: perf's event, or the keyword of a Windows recorder.
  kind (kind, name, perf, etw) AS (
    VALUES
      ('switches', 'context switches', 'perf record -a -e sched:sched_switch', 'CSwitch'),
      ('all_threads', 'switches of all programs',
        'perf record -a -e sched:sched_switch',
        'CSwitch'),
      ('states', 'thread states at switch-out',
        'perf record -a -e sched:sched_switch',
        'CSwitch'),
      ('wakeups', 'wakeups',
        'perf record -a -e sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new',
        'CSwitch+ReadyThread'),
      ('priorities', 'priorities', 'perf record -a -e sched:sched_switch', 'CSwitch'),
      ('bases', 'base priorities', NULL, 'ProcessThread'),
      ('boosts', 'priority changes', NULL, 'ThreadPriority'),
      ('cores', 'which logical CPUs share a core',
        'perf record without -B -N, or collect',
        'analyze --topology FILE: docs/windows-traces.md'),
      ('siblings', 'SMT siblings', NULL, NULL),
      ('core_types', 'core types',
        'collect',
        'Microsoft-Windows-Kernel-Processor-Power, or analyze --topology FILE'),
      ('hybrid', 'E cores', NULL, NULL),
      ('affinities', 'affinities', 'collect', 'ProcessThread'),
      ('kept_cpus', 'pinned threads or isolated CPUs', 'collect', 'ProcessThread'),
      ('idles', 'idle states', 'perf record -a -e power:cpu_idle', 'IdleStates'),
      ('frequencies', 'frequency changes',
        'perf record -a -e power:cpu_frequency',
        'Microsoft-Windows-Kernel-Processor-Power'),
      ('interrupts', 'interrupt work',
        'perf record -a -e irq:softirq_entry,irq:softirq_exit',
        'DPC+Interrupt'),
      ('yields', 'sched_yield calls',
        'perf record -a -e syscalls:sys_enter_sched_yield',
        'CSwitch'),
      ('disk_requests', 'disk requests', 'collect --waits', 'DiskIO+DiskIOInit'),
      ('page_faults', 'page faults', 'collect --waits', 'CSwitch'),
      ('pressure', 'pressure stall information', 'collect', NULL),
      ('parking', 'core parking', NULL, 'Microsoft-Windows-Kernel-Processor-Power'),
      ('initial_parking', 'which CPUs are parked at the start',
        NULL,
        'Microsoft-Windows-Kernel-Processor-Power with CaptureStateOnSave'),
      ('frames', 'frames',
        'analyze perf.data FRAMES.csv (a PresentMon file of the same run)',
        'Microsoft-Windows-DXGI, or analyze TRACE FRAMES.csv (a PresentMon file of the same run)'),
      ('paths', 'the thread of each frame and its wakers',
        'perf record -a -e sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new',
        'CSwitch+ReadyThread'),
      ('counters', 'performance counters at switches',
        'collect on a machine with a PMU, or collect --counters EVENT',
        'HardwareCounter'),
      ('stacks', 'stacks', 'collect --stacks', 'collect --stacks'),
      ('samples', 'samples', 'collect --samples 99', 'SampledProfile'),
      ('snapshots', 'snapshots at the start and end of a step', 'collect', NULL),
      ('cgroups', 'snapshots of cgroups', 'collect', NULL),
      ('workers', 'a workload that counts its work',
        'collect --workload NAME',
        'collect --workload NAME'),
      ('baselines', 'runs without the recorder',
        'collect --workload NAME',
        'collect --workload NAME'),
      ('pairs', 'cells of the experiment pairs',
        'collect --experiment pairs',
        'collect --experiment pairs'),
      ('scaling', 'cells of the experiment scaling',
        'collect --experiment scaling',
        'collect --experiment scaling'),
      ('smt-boost', 'cells of the experiment smt-boost',
        'collect --experiment smt-boost',
        'collect --experiment smt-boost'),
      ('handoff', 'cells of the experiment handoff',
        'collect --experiment handoff',
        'collect --experiment handoff'),
      ('shards', 'cells of the experiment shards',
        'collect --experiment shards',
        'collect --experiment shards')
  ),
  fact AS (
    SELECT trace_id, 'switches' AS kind FROM context_switch GROUP BY trace_id
    UNION ALL
    -- A recording of a single process names only that process's side of each switch.
    SELECT trace_id, 'all_threads' FROM context_switch
    WHERE prev_utid IS NOT NULL AND next_utid IS NOT NULL
      AND trace_id NOT IN (SELECT trace_id FROM problem WHERE place = 'PERF_RECORD_THREAD_MAP')
    GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'states' FROM context_switch
    WHERE prev_state IS NOT NULL OR prev_wait_reason IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'wakeups' FROM wakeup WHERE ends_wait(kind) GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'priorities' FROM sched_slice
    WHERE NOT is_idle AND priority IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'bases' FROM thread WHERE base_priority IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'boosts' FROM priority_change GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'cores' FROM cpu WHERE core IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'siblings' FROM cpu WHERE smt_index > 0 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'core_types' FROM cpu WHERE core_type IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'hybrid' FROM cpu WHERE core_type IN ('E', 'LP-E') GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'affinities' FROM affinity
    WHERE source <> 'kernel_thread' GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'kept_cpus' FROM affinity
    WHERE source <> 'kernel_thread' GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'kept_cpus' FROM machine_setting
    WHERE key = 'isolated_cpus' GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'kept_cpus' FROM run_worker WHERE cpu IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'idles' FROM cpu_idle GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'frequencies' FROM cpu_frequency GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'interrupts' FROM interrupt_slice GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'yields' FROM record_count
    WHERE record LIKE '%sched_yield%' GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'disk_requests' FROM record_count
    WHERE record LIKE '%block_rq_issue' OR record LIKE 'DiskIo/%' GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'page_faults' FROM record_count
    WHERE record LIKE '%page_fault_user' GROUP BY trace_id
    UNION ALL
    -- Windows records a wait for a page as the reason of the wait.
    SELECT trace_id, 'page_faults' FROM trace
    SEMI JOIN (FROM context_switch WHERE prev_wait_reason IS NOT NULL) USING (trace_id)
    UNION ALL
    SELECT trace_id, 'pressure' FROM snapshot_pressure
    GROUP BY trace_id HAVING count(DISTINCT edge) = 2
    UNION ALL
    SELECT trace_id, 'parking' FROM cpu_parking GROUP BY trace_id
    UNION ALL
    -- Linux parks no CPUs.
    SELECT trace_id, unnest(['parking', 'initial_parking']) FROM trace
    WHERE is_tracepoint_source(source) OR source = 'perfetto'
    UNION ALL
    SELECT trace_id, 'initial_parking' FROM cpu_parking
    WHERE ts IS NULL OR ts <= 0 GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'frames' FROM frame GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'paths' FROM frame_path GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'counters' FROM counter_sample GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'stacks' FROM stack GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'samples' FROM sample GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'snapshots' FROM snapshot_cpu
    GROUP BY trace_id HAVING count(DISTINCT edge) = 2
    UNION ALL
    SELECT trace_id, 'cgroups' FROM snapshot_cgroup GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'workers' FROM run_worker GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'baselines' FROM run WHERE baseline_per_s IS NOT NULL GROUP BY trace_id
    UNION ALL
    SELECT trace_id, experiment FROM experiment_cell GROUP BY ALL
  )
SELECT
  -- Recording.
  recording.trace_id,
  -- Kind of event or fact.
  kind.kind,
  -- Its name in plain words.
  kind.name,
  -- Whether the recording contains at least one.
  bool_or(fact.kind IS NOT NULL) AS recorded,
  -- How to record it on this system; null if it cannot be recorded.
  CASE
    WHEN is_windows_source(recording.source) THEN kind.etw
    WHEN recording.source = 'trace_cmd' THEN 'trace-cmd record' || kind_of_trace_cmd.options
    ELSE kind.perf
  END AS record_with,
FROM recording
CROSS JOIN kind
LEFT JOIN kind_of_trace_cmd ON kind_of_trace_cmd.kind = kind.kind
LEFT JOIN fact ON fact.trace_id = recording.trace_id AND fact.kind = kind.kind
GROUP BY ALL
ORDER BY recording.trace_id, kind.kind;
