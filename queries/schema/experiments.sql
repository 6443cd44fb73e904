-- Experiments: the conditions of each cell, and what its workers measured.

CREATE TABLE experiment_cell (
  trace_id BIGINT NOT NULL,        -- Recording of this cell.
  experiment VARCHAR NOT NULL,     -- pairs, scaling, smt-boost, handoff or shards.
  cell VARCHAR NOT NULL,           -- Name of the cell, the same in every repeat.
  place VARCHAR NOT NULL,          -- Relation of its CPUs: alone, siblings, same_l2, same_llc, ...
  repeat INTEGER NOT NULL,         -- Number of the repeat, from 1.
  position INTEGER NOT NULL,       -- Position in the random order of all cells, from 1.
  smt VARCHAR,                     -- SMT in this cell: on or off; NULL: unchanged.
  boost VARCHAR,                   -- Boost in this cell: on or off; NULL: unchanged.
  load VARCHAR,                    -- closed, open, command or service; NULL: a kernel that takes no requests.
  how VARCHAR,                     -- How parties wait: spin, yield or park.
  handoffs INTEGER,                -- Hand-offs that a frame needs; NULL: no frames.
  offered_per_s DOUBLE,            -- Requests offered per second, all workers together; NULL: no open loop.
  command_ns BIGINT,               -- Run time of the user's program; NULL: none ran, or it was stopped.
  throttles BIGINT,                -- Thermal throttling events; NULL: not reported.
  load_before DOUBLE,              -- Load average (1 minute) before it; NULL: not reported.
  khz BIGINT,                      -- Median clock of the CPUs right after it, as the kernel reports it; NULL: not reported.
  energy_ns BIGINT,                -- Time over which its energy was measured; NULL: not measured.
  service_pids BIGINT[],           -- Processes of the user's service; NULL: none.
  rate_unknown VARCHAR             -- Why the rate of the user's program or service is unknown; NULL: it is known, or there is none.
);

CREATE TABLE experiment_worker (
  trace_id BIGINT NOT NULL,        -- Recording of this cell.
  worker INTEGER NOT NULL,         -- Number of the worker, from 0.
  label VARCHAR NOT NULL,          -- Kernel, with its variant if one was chosen: pointer_chase:private; service: the user's.
  kernel VARCHAR NOT NULL,         -- Kernel, or service.
  variant VARCHAR,                 -- Variant that ran.
  ns_per_iteration DOUBLE,         -- Median length of an iteration.
  cycles_per_iteration DOUBLE,     -- The same in core cycles.
  ghz_before DOUBLE,               -- Clock of its core right before its interval, measured with 64 dependent additions.
  ghz_after DOUBLE,                -- Clock of its core right after all workers ended.
  predicted_slowdown DOUBLE,       -- Expected slowdown relative to running alone; NULL: unknown.
  predicted_basis VARCHAR,         -- What the expectation is based on.
  requests BIGINT,                 -- Requests served; NULL: the kernel serves none.
  late_starts BIGINT,              -- Requests that arrived while the worker was busy.
  busy_ns BIGINT,                  -- Time from each request's start (arrival, if the worker was free) to its end, summed.
  interval_ns BIGINT,              -- Time over which requests were counted.
  frames BIGINT,                   -- Frames measured; NULL: the kernel makes none.
  missed_frames BIGINT,            -- Frames that began late.
  work_ns BIGINT,                  -- Time in requests only, without spinning or waking up for them; NULL: not measured.
  ghz_during DOUBLE,               -- Median clock of its core during its interval; NULL: not measured.
  instructions_per_iteration DOUBLE -- Instructions of an iteration, known for loops in assembly; NULL: unknown.
);

CREATE TABLE worker_clock (
  trace_id BIGINT NOT NULL,        -- Recording of this cell.
  worker INTEGER NOT NULL,         -- Number of the worker.
  ns BIGINT NOT NULL,              -- End of a part of its interval, after the interval began.
  ghz DOUBLE NOT NULL              -- Median clock of its core in that part, measured with 64 dependent additions.
);

CREATE TABLE worker_latency (
  trace_id BIGINT NOT NULL,        -- Recording of this cell.
  worker INTEGER NOT NULL,         -- Number of the worker.
  bucket_ns BIGINT NOT NULL,       -- Upper end of the bucket, which is at most 1/64 wide.
  requests BIGINT NOT NULL         -- Requests (or frames) in it.
);

CREATE TABLE calibration (
  trace_id BIGINT NOT NULL,        -- Recording that it applies to: the same machine.
  workload VARCHAR NOT NULL,       -- Kernel.
  variant VARCHAR,                 -- Variant of the kernel.
  core_type VARCHAR,               -- Core type; NULL: unknown.
  yield DOUBLE,                    -- Y: both siblings together / one alone; NULL: not measured.
  yield_low DOUBLE,                -- Lower end of its confidence interval.
  yield_high DOUBLE,               -- Upper end of its confidence interval.
  alone_per_s DOUBLE,              -- Work per second of one worker alone on a core.
  repeats INTEGER NOT NULL,        -- Repeats used for it.
  measured_utc VARCHAR NOT NULL    -- When it was measured.
);
