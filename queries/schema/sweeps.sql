-- Interval tables: what several CPUs or threads do at the same moment, built once from the derived
-- tables.

CREATE TABLE core_state (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  core INTEGER NOT NULL,           -- Core: the lowest logical CPU number of its siblings.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT NOT NULL,             -- Length; the rows of a core cover the trace.
  online INTEGER NOT NULL USING COMPRESSION RLE, -- Its online logical CPUs.
  unknown INTEGER NOT NULL USING COMPRESSION RLE, -- Those of them in an unknown state.
  busy INTEGER NOT NULL,           -- Those in state thread or interrupt.
  threads INTEGER NOT NULL         -- Those in state thread.
);

CREATE TABLE sibling_slice (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  core INTEGER NOT NULL,           -- Core.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT NOT NULL,             -- Length; cpu and other_cpu run the same two threads throughout.
  cpu INTEGER NOT NULL,            -- The lower logical CPU.
  utid BIGINT,                     -- Its thread; NULL: interrupt work.
  other_cpu INTEGER NOT NULL,      -- The higher logical CPU.
  other_utid BIGINT                -- Its thread; NULL: interrupt work.
);

CREATE TABLE sharing_slice (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  utid BIGINT NOT NULL,            -- Thread that runs with at least one SMT sibling busy.
  cpu INTEGER NOT NULL,            -- Where.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT NOT NULL,             -- Length.
  same_type_idle_ns BIGINT,        -- Length of the longest idle period of a usable whole idle core of the same core type at this moment; NULL: none.
  any_type_idle_ns BIGINT,         -- The same over all core types.
  soft_parked_idle_ns BIGINT,      -- The same over soft-parked cores only, which the others leave out.
  affinity_known BOOLEAN NOT NULL USING COMPRESSION RLE -- False: its affinity is unknown and taken as the CPUs it ran on (lower bound).
);

CREATE TABLE avoidable_match (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT NOT NULL,             -- Length.
  min_idle_ns BIGINT NOT NULL,     -- Shortest idle period that counts: 0 or 100000.
  same_type INTEGER NOT NULL,      -- Largest matching of sharing threads to usable idle cores of their type.
  any_type INTEGER NOT NULL        -- The same over all core types.
);

CREATE TABLE ready_slice (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  utid BIGINT NOT NULL,            -- Thread that is ready.
  ts BIGINT NOT NULL,              -- Start; the rows of a thread cover its ready time.
  dur BIGINT NOT NULL,             -- Length.
  ready_ts BIGINT NOT NULL,        -- Start of the ready period this is a part of.
  entered_cpu INTEGER,             -- CPU it then switched in on; NULL: not seen.
  throttled BOOLEAN NOT NULL USING COMPRESSION RLE, -- Its slice ended runnable, the idle thread was next, and that CPU is idle now and known not to be parked; or WrCpuRateControl, or a deadline or real-time thread without runtime.
  cgroup_throttled BOOLEAN NOT NULL USING COMPRESSION RLE, -- Its cgroup's throttled time grew in the step.
  idle_exit BOOLEAN NOT NULL,      -- At most 1 ms before its switch-in, with the CPU it switches in on still idle.
  idle_ns BIGINT,                  -- Known length of the longest idle interval, at this moment, of an allowed online unparked CPU; NULL: none idle, or the thread may be leaving its idle state in lost time.
  parked_ns BIGINT,                -- The same over allowed parked or soft-parked CPUs.
  unknown_available BOOLEAN NOT NULL USING COMPRESSION RLE, -- An allowed CPU is in an unknown state, or idle with its parking or the length of its idle interval unknown; or an allowed CPU is idle in the last ms before lost time that hides the switch-in.
  affinity_known BOOLEAN NOT NULL USING COMPRESSION RLE, -- False: its affinity is unknown and taken as the CPUs it ran on (lower bound).
  outside_idle_ns BIGINT,          -- Length of the longest idle interval, at this moment, of an online unparked CPU outside its affinity (if that is unknown, outside the CPUs it ran on); NULL: none idle.
  obstacle VARCHAR NOT NULL,       -- Why it was not running, if idle intervals of 100000 ns count: throttled, idle_exit, idle_available, parked_available, unknown or all_busy.
  in_doubt BOOLEAN NOT NULL USING COMPRESSION RLE, -- Lost records leave open whether it switched in soon, or an idle interval was longer.
  may_be_idle BOOLEAN NOT NULL USING COMPRESSION RLE -- For parked_available: another allowed CPU may have been idle and unparked.
);

CREATE TABLE ready_match (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT NOT NULL,             -- Length.
  min_idle_ns BIGINT NOT NULL,     -- Shortest idle interval that counts: 0 or 100000.
  threads INTEGER NOT NULL         -- Largest matching of threads in idle_available to the idle CPUs allowed to them.
);

CREATE TABLE concurrency_slice (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Start; the rows cover the trace.
  dur BIGINT NOT NULL,             -- Length.
  busy INTEGER NOT NULL,           -- Busy logical CPUs.
  unknown INTEGER NOT NULL USING COMPRESSION RLE, -- Logical CPUs in an unknown state.
  ready INTEGER NOT NULL,          -- Ready threads.
  p INTEGER NOT NULL,              -- Cores of type P or U with at least one busy CPU.
  e INTEGER NOT NULL,              -- Cores of type E or LP-E with at least one busy CPU.
  other INTEGER NOT NULL,          -- Cores of unknown or numbered type with at least one busy CPU.
  smt INTEGER NOT NULL,            -- Busy CPUs beyond the first of their core.
  online INTEGER USING COMPRESSION RLE -- Logical CPUs that are not offline.
);

CREATE TABLE quantum_chain (
  trace_id BIGINT NOT NULL,        -- Recording.
  chain INTEGER NOT NULL,          -- Number of the chain in its recording.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  ts BIGINT NOT NULL,              -- Switch-in of the first thread.
  dur BIGINT NOT NULL,             -- Length, to the switch-out of the last thread.
  hand_offs INTEGER NOT NULL,      -- Hand-offs.
  utids BIGINT[] NOT NULL,         -- Its threads, in order of appearance.
  slice_ns BIGINT NOT NULL,        -- Median length of the slices before a hand-off.
  skipped INTEGER NOT NULL,        -- Short slices that were skipped.
  yield_possible BOOLEAN NOT NULL, -- Some hand-off may be a sched_yield (quantum_end_or_yield).
  serialized_ns BIGINT NOT NULL,   -- Part in which another CPU allowed to one of the waiting threads was idle, parked or not.
  idle_elsewhere_ns BIGINT NOT NULL, -- Part in which some other online CPU was idle, allowed or not.
  affinity_known BOOLEAN NOT NULL  -- False: their affinity is unknown and taken as the CPUs they ran on (lower bound).
);

CREATE TABLE frame_path (
  trace_id BIGINT NOT NULL,        -- Recording.
  upid BIGINT NOT NULL,            -- Process that presents.
  frame BIGINT NOT NULL,           -- Number of the frame in its process.
  hop INTEGER NOT NULL,            -- 0 for the presenting thread, plus 1 for each waker further back in time.
  utid BIGINT NOT NULL,            -- Thread the path is on.
  ts BIGINT NOT NULL,              -- Start; the rows of a frame cover it.
  dur BIGINT NOT NULL              -- Length.
);
