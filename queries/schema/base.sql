-- Base tables: what the decoders read, before any rule is applied. Times are nanoseconds from ns 0
-- of their trace. Unknown is NULL. Columns that hardly change from row to row name their
-- compression: DuckDB then tries no other, which saves a tenth of the time of an insert.

CREATE TABLE trace (
  trace_id BIGINT NOT NULL,        -- Number of the recording in this database, from 1.
  label VARCHAR NOT NULL,          -- Name of the step or of the file.
  source VARCHAR NOT NULL,         -- perf, trace_cmd, perf_script (text of it), perfetto, etw, xperf (text of its dumper) or wpa (CSV of wpaexporter).
  path VARCHAR,                    -- File it was read from, as given.
  host VARCHAR,                    -- Host name in the recording.
  os VARCHAR,                      -- Operating system and kernel release.
  cpu_model VARCHAR,               -- CPU model as the system reports it.
  clock_name VARCHAR,              -- Clock of the time stamps: monotonic, perf, qpc, ...
  start_clock BIGINT,              -- Raw clock ticks at ns 0.
  clock_hz BIGINT,                 -- Raw clock ticks per second.
  start_time_utc TIMESTAMP_NS,     -- Wall time at ns 0; NULL if the file does not contain it.
  first_ns BIGINT,                 -- Time of the earliest record: 0 or negative.
  duration_ns BIGINT,              -- Time of the latest record.
  events_lost BIGINT,              -- Records that the recorder reports as lost; NULL if it does not report this.
  buffers_lost BIGINT,             -- Buffers that the recorder reports as lost; NULL if it does not report this.
  schema_version INTEGER NOT NULL, -- Version of this schema.
  tool_version VARCHAR NOT NULL    -- Version of schedlens that wrote the rows.
);

CREATE TABLE cpu (
  trace_id BIGINT NOT NULL,        -- Recording.
  cpu INTEGER NOT NULL,            -- Logical CPU number over the whole machine.
  group_no INTEGER,                -- Processor group (Windows).
  number_in_group INTEGER,         -- Number in its group (Windows).
  core INTEGER,                    -- Core: the lowest logical CPU number of its siblings.
  smt_index INTEGER,               -- Rank among the siblings of its core, from 0.
  core_type VARCHAR,               -- U (uniform), P, E or LP-E; NULL if unknown.
  efficiency_class INTEGER,        -- Efficiency class as the system reports it; higher is faster.
  capacity INTEGER,                -- Linux cpu_capacity, 1024 for the fastest.
  l2 INTEGER,                      -- L2 group: the lowest logical CPU number that shares it.
  llc INTEGER,                     -- Last-level cache group: the lowest logical CPU number that shares it.
  package INTEGER,                 -- Physical package.
  numa_node INTEGER,               -- NUMA node.
  base_khz BIGINT,                 -- Base frequency.
  max_khz BIGINT,                  -- Highest frequency.
  online BOOLEAN,                  -- Whether it is online from valid_from_ns on.
  valid_from_ns BIGINT             -- When this row starts to apply; NULL: from the beginning.
);

CREATE TABLE machine_setting (
  trace_id BIGINT NOT NULL,        -- Recording.
  key VARCHAR NOT NULL,            -- governor, boost, smt_control, hypervisor, isolated_cpus, scheduler, hz, ...
  value VARCHAR                    -- As found; NULL: queried and not found.
);

-- The numbers by which recordings of one session of their recorder name each other.
CREATE TABLE recording_identity (
  trace_id BIGINT NOT NULL,        -- Recording.
  recording_uid BIGINT,            -- Its number; NULL if it has none.
  host_uid BIGINT                  -- Of a guest: number of the recording of its host, whose clock its times have.
);

CREATE TABLE guest_cpu (
  trace_id BIGINT NOT NULL,        -- Recording of the host.
  guest VARCHAR NOT NULL,          -- Name of the guest.
  guest_uid BIGINT NOT NULL,       -- recording_uid of the recording of the guest.
  cpu INTEGER NOT NULL,            -- Logical CPU of the guest.
  tid BIGINT NOT NULL,             -- Thread of the host that runs it.
  utid BIGINT                      -- The same, unique in the database; NULL if no record names it.
);

CREATE TABLE process (
  trace_id BIGINT NOT NULL,        -- Recording.
  upid BIGINT NOT NULL,            -- One life of a process, unique in the database.
  pid BIGINT NOT NULL,             -- Process id as recorded; ids are reused.
  name VARCHAR,                    -- Last name.
  start_ns BIGINT,                 -- Start of its life; NULL if it existed when the recording began.
  end_ns BIGINT,                   -- End of its life; NULL if it outlived the recording.
  parent_pid BIGINT,               -- Process id of its creator; NULL if not recorded. Ids are reused.
  session_id BIGINT,               -- Terminal Services session (Windows); NULL if not recorded.
  command_line VARCHAR             -- Command line (Windows); NULL if not recorded.
);

CREATE TABLE thread (
  trace_id BIGINT NOT NULL,        -- Recording.
  utid BIGINT NOT NULL,            -- One life of a thread, unique in the database.
  tid BIGINT NOT NULL,             -- Thread id as recorded; ids are reused.
  upid BIGINT,                     -- Its process; NULL if not recorded.
  name VARCHAR,                    -- Last name.
  start_ns BIGINT,                 -- Start of its life; NULL if it existed when the recording began.
  end_ns BIGINT,                   -- Exit record; NULL if none.
  base_priority INTEGER,           -- Base priority; NULL if not recorded.
  is_idle BOOLEAN NOT NULL         -- The idle thread of a CPU.
);

CREATE TABLE thread_name (
  trace_id BIGINT NOT NULL,        -- Recording.
  utid BIGINT NOT NULL,            -- Thread.
  ts BIGINT,                       -- When the name was set; NULL: before the recording.
  name VARCHAR NOT NULL            -- The name.
);

CREATE TABLE affinity (
  trace_id BIGINT NOT NULL,        -- Recording.
  utid BIGINT NOT NULL,            -- Thread.
  valid_from_ns BIGINT,            -- When it starts to apply; NULL: from the beginning.
  cpus INTEGER[] NOT NULL,         -- Logical CPUs the thread may run on.
  source VARCHAR NOT NULL          -- snapshot, reading (of /proc, within the step), pin, event, rundown or kernel_thread.
);

CREATE TABLE context_switch (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Time of the switch.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  seq BIGINT NOT NULL,             -- Position in this CPU's stream, over all kinds of records.
  prev_utid BIGINT,                -- Thread that switches out.
  next_utid BIGINT,                -- Thread that switches in.
  prev_state INTEGER,              -- State of prev_utid, the number as recorded; NULL for source switch_event.
  prev_wait_reason INTEGER,        -- KWAIT_REASON (Windows).
  prev_wait_mode INTEGER,          -- KPROCESSOR_MODE of the wait (Windows).
  prev_priority INTEGER,           -- Priority of prev_utid.
  next_priority INTEGER,           -- Priority of next_utid.
  prev_preempted BOOLEAN USING COMPRESSION RLE, -- The record's own preempt flag, where it has one.
  prev_ideal_cpu INTEGER,          -- Ideal processor (Windows).
  prev_cstate INTEGER,             -- Idle state that the CPU was in before (Windows).
  prev_remaining_quantum INTEGER,  -- Remaining quantum of prev_utid, the number as recorded (Windows); NULL if the record has none.
  stack_id BIGINT,                 -- Stack of prev_utid as it left the CPU (Linux); NULL if not recorded.
  next_stack_id BIGINT,            -- Stack of next_utid, which is where it waited or was preempted (Windows); NULL if not recorded.
  source VARCHAR NOT NULL          -- switch: a scheduler event; switch_event: a pair of PERF_RECORD_SWITCH.
);

CREATE TABLE wakeup (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Time of the record.
  cpu INTEGER NOT NULL,            -- Logical CPU that wrote it, where the waker ran.
  seq BIGINT NOT NULL,             -- Position in this CPU's stream, over all kinds of records.
  utid BIGINT,                     -- Thread made ready.
  waker_utid BIGINT,               -- Thread that woke it; an idle thread means an interrupt.
  prev_cpu INTEGER,                -- CPU it last ran on, if the record contains it.
  target_cpu INTEGER,              -- CPU it was sent to; for sched_waking, corrected by the next sched_migrate_task.
  kind VARCHAR NOT NULL,           -- ready, waking, wakeup or wakeup_new.
  in_interrupt BOOLEAN USING COMPRESSION RLE, -- Written from interrupt context.
  stack_id BIGINT,                 -- Stack of the waker; NULL if not recorded.
  effective BOOLEAN USING COMPRESSION RLE -- True if it started a ready period; false: it changed nothing.
);

CREATE TABLE migration (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Time of the record.
  cpu INTEGER NOT NULL,            -- Logical CPU that wrote it.
  seq BIGINT NOT NULL,             -- Position in this CPU's stream, over all kinds of records.
  utid BIGINT,                     -- Thread moved.
  orig_cpu INTEGER NOT NULL,       -- From.
  dest_cpu INTEGER NOT NULL        -- To.
);

CREATE TABLE priority_change (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- Time of the record.
  cpu INTEGER NOT NULL,            -- Logical CPU that wrote it.
  utid BIGINT,                     -- Thread.
  old_priority INTEGER,            -- Before.
  new_priority INTEGER,            -- After.
  kind VARCHAR NOT NULL            -- dynamic or base.
);

CREATE TABLE affinity_change (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- Time of the record.
  cpu INTEGER NOT NULL,            -- Logical CPU that wrote it.
  utid BIGINT,                     -- Thread.
  cpus INTEGER[],                  -- Logical CPUs allowed from now on; NULL on Linux, where a call only has their address.
  setter_utid BIGINT               -- Thread that set them; NULL: not recorded.
);

CREATE TABLE ideal_cpu_change (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- Time of the record.
  cpu INTEGER NOT NULL,            -- Logical CPU that wrote it.
  utid BIGINT,                     -- Thread.
  ideal_cpu INTEGER                -- Ideal processor, as the next switch-out after its change shows it.
);

CREATE TABLE qos_change (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- Time of the record.
  cpu INTEGER NOT NULL,            -- Logical CPU that wrote it.
  utid BIGINT,                     -- Thread.
  old_qos VARCHAR,                 -- Before.
  new_qos VARCHAR                  -- After.
);

CREATE TABLE sched_yield (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Time of the system call.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  seq BIGINT NOT NULL,             -- Position in this CPU's stream, over all kinds of records.
  utid BIGINT                      -- Thread that yields.
);

CREATE TABLE wait_event (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Time of the record.
  cpu INTEGER NOT NULL,            -- Logical CPU that wrote it.
  seq BIGINT NOT NULL,             -- Position in this CPU's stream, over all kinds of records.
  utid BIGINT,                     -- Thread in which it happened, or which issued the request; NULL for disk_done on Linux.
  kind VARCHAR NOT NULL,           -- page_fault (Linux: the start of any), hard_fault (Windows: the end of one that needed a disk), disk_issue: a request goes to a disk, or disk_done: the disk has answered.
  device BIGINT,                   -- Number of the disk (Linux: dev_t); NULL: a page fault, or disk_issue on Windows.
  sector BIGINT,                   -- First sector of the request, of 512 bytes; on Linux it identifies the request, with the disk.
  bytes BIGINT,                    -- Length of the request, or of what a hard fault read.
  operation VARCHAR,               -- read, write or flush; NULL on Linux.
  request BIGINT,                  -- Windows: what identifies the request until it is done, the address of its IRP (unsigned 64 bits, read as signed).
  dur BIGINT,                      -- Windows: how long it took until ts, of hard_fault and disk_done.
  address BIGINT,                  -- Virtual address of a hard fault (unsigned 64 bits, read as signed).
  file VARCHAR                     -- Windows: the file that was read or written; NULL: not recorded (keyword Filename).
);

CREATE TABLE interrupt_slice (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Start.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  seq BIGINT NOT NULL,             -- Position of its start in this CPU's stream, over all kinds of records.
  dur BIGINT,                      -- Length, cut off at lost records; NULL if its end is not recorded.
  kind VARCHAR NOT NULL,           -- irq, softirq, dpc or isr.
  name VARCHAR                     -- NET_RX, TIMER, the handler, ...
);

CREATE TABLE cpu_idle (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Start of the idle state.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  dur BIGINT,                      -- Length; NULL if its end is not recorded.
  state INTEGER NOT NULL           -- Number of the idle state as recorded.
);

CREATE TABLE cpu_frequency (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- When it starts to apply.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  khz BIGINT NOT NULL              -- Frequency.
);

CREATE TABLE cpu_parking (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT,                       -- When it starts to apply; NULL: from the beginning (rundown).
  cpu INTEGER NOT NULL,            -- Logical CPU.
  parked BOOLEAN,                  -- Parked.
  soft_parked BOOLEAN,             -- Soft-parked.
  reason VARCHAR                   -- Reason for the change; NULL if not recorded.
);

CREATE TABLE counter_sample (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Time of the switch at which it was read.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  utid BIGINT,                     -- Thread that switches out.
  counter VARCHAR NOT NULL,        -- Name: cycles, instructions, msr/tsc/, ...
  core_type VARCHAR,               -- Core type of the CPU; NULL if unknown.
  value BIGINT NOT NULL            -- Cumulative count of this CPU (raw 64 bits, read as signed).
);

-- Values that a recording contains over time, apart from idle states and frequencies.
CREATE TABLE track_counter (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- When the value was read.
  name VARCHAR NOT NULL,           -- Name: mem.rss, MemFree, the name that the program gave it, ...
  unit VARCHAR,                    -- Unit of the value; NULL if not recorded.
  cpu INTEGER,                     -- Logical CPU that it is about; NULL: none.
  upid BIGINT,                     -- Process that it is about; NULL: none.
  utid BIGINT,                     -- Thread that it is about; NULL: none.
  value DOUBLE NOT NULL            -- The value.
);

CREATE TABLE frame (
  trace_id BIGINT NOT NULL,        -- Recording.
  frame BIGINT NOT NULL,           -- Number of the frame in its process.
  upid BIGINT,                     -- Presenting process.
  utid BIGINT,                     -- Presenting thread; NULL if not recorded.
  process VARCHAR,                 -- Its name.
  start_ns BIGINT NOT NULL,        -- Start of the frame.
  dur_ns BIGINT,                   -- Length.
  cpu_busy_ns BIGINT,              -- CPU time spent on it, as the source defines it.
  gpu_busy_ns BIGINT,              -- GPU time.
  displayed_ns BIGINT,             -- When it was on screen.
  dropped BOOLEAN,                 -- Never shown.
  dialect VARCHAR,                 -- Source: dxgi, d3d9, dxgkrnl, presentmon1, presentmon2, presentmon2.3, android (frame timeline), mark (the program's own stamps, without GPU and screen).
  clock_residual_ns BIGINT         -- Uncertainty of the clock alignment; 0 for the same clock.
);

CREATE TABLE mark (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT,                      -- Length; 0 for an instant.
  name VARCHAR NOT NULL,           -- Text.
  kind VARCHAR NOT NULL            -- workload_phase, user, frame, incident (what made a ring save its events).
);

CREATE TABLE run (
  trace_id BIGINT NOT NULL,        -- Recording of this step.
  step VARCHAR NOT NULL,           -- Name of the step's folder.
  workload VARCHAR,                -- Kernel; NULL for a command.
  variant VARCHAR,                 -- Variant of the kernel.
  command VARCHAR,                 -- Command line, if not a kernel.
  placement VARCHAR,               -- default, physical, siblings or pinned: the first of the placements that share this plan.
  placements VARCHAR[],            -- All placements that share this plan (identical plans run once).
  threads INTEGER,                 -- Workers.
  repeat INTEGER,                  -- Number of the repeat, from 1.
  oversubscribed BOOLEAN,          -- More workers than allowed CPUs.
  recorded BOOLEAN NOT NULL,       -- A trace was recorded.
  start_ns BIGINT,                 -- Start of the step.
  end_ns BIGINT,                   -- End of the step.
  planned_cpus INTEGER[],          -- CPU of each worker; NULL: no mask at all.
  status VARCHAR,                  -- Result of the kernel's self-check: ok, failed or unsupported.
  baseline_per_s DOUBLE,           -- Throughput without recording; NULL: not measured.
  recorded_per_s DOUBLE,           -- Throughput with recording, same plan.
  overhead_unit VARCHAR            -- iterations or bytes.
);

CREATE TABLE run_worker (
  trace_id BIGINT NOT NULL,        -- Recording of this step.
  worker INTEGER NOT NULL,         -- Number of the worker, from 0.
  utid BIGINT,                     -- Its thread; NULL if the trace does not show it.
  tid BIGINT NOT NULL,             -- Its thread id.
  cpu INTEGER,                     -- CPU it is pinned to; NULL: not pinned.
  start_ns BIGINT NOT NULL,        -- Start of its measured interval.
  end_ns BIGINT NOT NULL,          -- End of its measured interval.
  cpu_time_ns BIGINT NOT NULL,     -- Growth of its own CPU clock over the interval.
  iterations BIGINT NOT NULL,      -- Work done in the interval.
  bytes BIGINT NOT NULL            -- Bytes worked on; 0 for kernels without data.
);

CREATE TABLE run_sample (
  trace_id BIGINT NOT NULL,        -- Recording of this step.
  worker INTEGER NOT NULL,         -- Number of the worker.
  start_ns BIGINT NOT NULL,        -- Start of the batch.
  end_ns BIGINT NOT NULL,          -- End of the batch.
  cpu INTEGER NOT NULL,            -- CPU at its start.
  end_cpu INTEGER NOT NULL,        -- CPU at its end.
  iterations BIGINT NOT NULL,      -- Work in the batch.
  bytes BIGINT NOT NULL            -- Bytes in the batch.
);

CREATE TABLE snapshot_cpu (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- When it was read.
  edge VARCHAR NOT NULL,           -- begin or end of the step.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  user_ns BIGINT,                  -- User time since boot, nice and guest included.
  system_ns BIGINT,                -- System time since boot.
  idle_ns BIGINT,                  -- Idle time since boot, waiting for I/O included.
  irq_ns BIGINT,                   -- Interrupt time since boot.
  softirq_ns BIGINT,               -- Softirq time since boot.
  steal_ns BIGINT                  -- Time the hypervisor ran something else, since boot.
);

CREATE TABLE snapshot_pressure (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- When it was read.
  edge VARCHAR NOT NULL,           -- begin or end of the step.
  resource VARCHAR NOT NULL,       -- cpu, io, memory or irq.
  some_ns BIGINT,                  -- Time since boot in which some thread was stalled for it.
  full_ns BIGINT                   -- Time since boot in which all threads that were not idle were stalled for it; NULL: not reported.
);

CREATE TABLE snapshot_thread (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- When it was read.
  edge VARCHAR NOT NULL,           -- begin or end of the step.
  utid BIGINT,                     -- Thread; NULL if the trace does not show it.
  tid BIGINT NOT NULL,             -- Its thread id.
  pid BIGINT NOT NULL,             -- Its process id.
  name VARCHAR,                    -- Its name.
  state VARCHAR,                   -- Letter of /proc: R, S, D, ...
  cpu INTEGER,                     -- CPU it last ran on.
  user_ns BIGINT,                  -- User time of its life.
  system_ns BIGINT,                -- System time of its life.
  voluntary BIGINT,                -- Voluntary switches of its life.
  involuntary BIGINT,              -- Involuntary switches of its life.
  cgroup VARCHAR                   -- Its cgroup.
);

CREATE TABLE thread_cgroup (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- When it was first read there, moved there, or began there.
  utid BIGINT,                     -- Thread; NULL if the trace does not show it.
  tid BIGINT NOT NULL,             -- Its thread id.
  cgroup VARCHAR NOT NULL,         -- The cgroup it is in from then on.
  source VARCHAR NOT NULL          -- reading (of /proc), sample (a record contains it), move, or birth (its creator's cgroup).
);

CREATE TABLE thread_policy (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- When it was first read with this policy.
  utid BIGINT,                     -- Thread; NULL if the trace does not show it.
  tid BIGINT NOT NULL,             -- Its thread id.
  policy VARCHAR NOT NULL          -- How Linux schedules it: other, batch, idle, fifo, rr, deadline or ext.
);

CREATE TABLE snapshot_cgroup (
  trace_id BIGINT NOT NULL,        -- Recording.
  ts BIGINT NOT NULL,              -- When it was read.
  edge VARCHAR NOT NULL,           -- begin or end of the step; last: the last reading of a cgroup that ended within it.
  cgroup VARCHAR NOT NULL,         -- Path of the cgroup.
  usage_ns BIGINT,                 -- CPU time of its life.
  throttled_ns BIGINT,             -- Time its threads were throttled.
  nr_throttled BIGINT,             -- Periods in which they were throttled.
  quota_ns BIGINT,                 -- Quota per period; NULL: none.
  period_ns BIGINT                 -- Period.
);

CREATE TABLE request_latency (
  trace_id BIGINT NOT NULL,        -- Recording.
  bucket_ns BIGINT NOT NULL,       -- Upper end of the bucket.
  requests BIGINT NOT NULL         -- Requests in it.
);

CREATE TABLE energy (
  trace_id BIGINT NOT NULL,        -- Recording.
  domain VARCHAR NOT NULL,         -- package-0, core, dram, ...
  joules DOUBLE NOT NULL           -- Energy over the step.
);

CREATE TABLE loss (
  trace_id BIGINT NOT NULL,        -- Recording.
  cpu INTEGER,                     -- Logical CPU; NULL: not known which.
  start_ns BIGINT,                 -- Last record before the gap.
  end_ns BIGINT,                   -- First record after it.
  events BIGINT,                   -- Records lost; NULL if not known.
  signalled_by VARCHAR NOT NULL    -- PERF_RECORD_LOST, RB_MISSED_EVENTS, buffer_lost, chain_break, stream_start, stream_end, late_start, not_recorded, truncated, ...
);

CREATE TABLE problem (
  trace_id BIGINT NOT NULL,        -- Recording.
  place VARCHAR NOT NULL,          -- Where: a file offset, a feature, a rule of the state machine.
  what VARCHAR NOT NULL,           -- What could not be read or was repaired, in one line.
  count BIGINT NOT NULL            -- How often.
);

-- Records decoded by kind, for comparison with other readers.
CREATE TABLE record_count (
  trace_id BIGINT NOT NULL,        -- Recording.
  record VARCHAR NOT NULL,         -- Name of the event, or of the record kind.
  count BIGINT NOT NULL            -- Records of this kind in the file.
);
