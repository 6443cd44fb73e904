-- Summaries: answers for the default window, computed once in a pass over the schedule. The views of
-- the same questions read them and compute the answers for any other window.

CREATE TABLE fair_share_sum (
  trace_id BIGINT NOT NULL,        -- Recording.
  start_ns BIGINT NOT NULL,        -- Start of the window.
  end_ns BIGINT NOT NULL,          -- End of the window.
  utid BIGINT NOT NULL,            -- Thread.
  weight INTEGER,                  -- Its weight among the threads that share; NULL: unknown.
  run_ns BIGINT NOT NULL,          -- Running time.
  ready_ns BIGINT NOT NULL,        -- Ready time.
  crowded_ready_ns BIGINT NOT NULL, -- Part of ready_ns with more runnable threads than CPUs.
  fair_ready_ns BIGINT             -- Ready time that fair sharing would cost it; NULL: unknown.
);

-- Pools of at least 3 threads.
CREATE TABLE parallel_section_sum (
  trace_id BIGINT NOT NULL,        -- Recording.
  start_ns BIGINT NOT NULL,        -- Start of the window.
  end_ns BIGINT NOT NULL,          -- End of the window.
  utid BIGINT NOT NULL,            -- Thread of the worker pool with the lowest number.
  workers INTEGER NOT NULL,        -- Workers that ran in a section.
  sections BIGINT NOT NULL,        -- Sections with this many workers that start in the window.
  dur_ns BIGINT NOT NULL,          -- Sum of their lengths.
  p50_ns BIGINT NOT NULL,          -- Median length.
  run_ns BIGINT NOT NULL,          -- Running time of the workers in them.
  ready_ns BIGINT NOT NULL,        -- Ready time of the workers in them.
  most_running INTEGER NOT NULL    -- Most workers that ran at once.
);

CREATE TABLE concurrency_process_sum (
  trace_id BIGINT NOT NULL,        -- Recording.
  start_ns BIGINT NOT NULL,        -- Start of the window.
  end_ns BIGINT NOT NULL,          -- End of the window.
  utid BIGINT NOT NULL,            -- Thread with the lowest number of all processes of one name.
  running INTEGER NOT NULL,        -- Threads of these processes that ran at once.
  ns BIGINT NOT NULL               -- Time with exactly this many running.
);

CREATE TABLE ready_obstacle_sum (
  trace_id BIGINT NOT NULL,        -- Recording.
  start_ns BIGINT NOT NULL,        -- Start of the window.
  end_ns BIGINT NOT NULL,          -- End of the window.
  min_idle_ns BIGINT NOT NULL,     -- Shortest idle interval that counts.
  utid BIGINT NOT NULL,            -- Thread.
  ready_ns BIGINT NOT NULL,        -- Ready time, which the next six sum to.
  throttled_ns BIGINT NOT NULL,    -- Throttled by a quota or a limit of its class.
  idle_exit_ns BIGINT NOT NULL,    -- Just before the switch-in, with its CPU still idle.
  idle_available_ns BIGINT NOT NULL, -- An allowed, unparked CPU was idle.
  parked_available_ns BIGINT NOT NULL, -- An allowed CPU was idle, but parked or soft-parked.
  obstacle_unknown_ns BIGINT NOT NULL, -- The state or the parking of an allowed CPU is unknown.
  all_busy_ns BIGINT NOT NULL,     -- No allowed CPU was idle long enough.
  maybe_idle_ns BIGINT NOT NULL,   -- Part of parked_available_ns that may be idle_available.
  outside_idle_ns BIGINT NOT NULL, -- Part of all_busy_ns in which an unparked CPU outside its affinity was idle.
  affinity_known BOOLEAN NOT NULL  -- False: taken as the CPUs that it ran on.
);
