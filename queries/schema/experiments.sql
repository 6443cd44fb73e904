-- Experiments: what each cell was to show, and what its workers counted beside their work.

CREATE TABLE experiment_cell (
  trace_id BIGINT NOT NULL,        -- Recording of this cell.
  experiment VARCHAR NOT NULL,     -- pairs, scaling, smt-boost, handoff or shards.
  cell VARCHAR NOT NULL,           -- Name of the cell, the same in every repeat.
  place VARCHAR NOT NULL,          -- How its CPUs stand to each other: alone, siblings, same_l2, same_llc, ...
  repeat INTEGER NOT NULL,         -- Number of the repeat, from 1.
  position INTEGER NOT NULL,       -- Its place in the random order of all cells, from 1.
  smt VARCHAR,                     -- SMT in this cell: on or off; NULL: as found.
  boost VARCHAR,                   -- Boost in this cell: on or off; NULL: as found.
  load VARCHAR,                    -- closed, open or command; NULL: a kernel that takes no requests.
  how VARCHAR,                     -- How parties wait: spin, yield or park.
  handoffs INTEGER,                -- Hand-offs that a frame needs; NULL: no frames.
  offered_per_s DOUBLE,            -- Requests offered a second, all workers together; NULL: no open loop.
  command_ns BIGINT,               -- Time that the user's program took in it; NULL: none ran, or it was ended.
  throttles BIGINT,                -- Times that cores were slowed for their heat in it; NULL: not told.
  load_before DOUBLE,              -- Load average (1 minute) before it; NULL: not told.
  khz BIGINT,                      -- Median clock of the CPUs right after it, as the kernel names it; NULL: not told.
  energy_ns BIGINT                 -- Time over which its energy was measured; NULL: not measured.
);

CREATE TABLE experiment_worker (
  trace_id BIGINT NOT NULL,        -- Recording of this cell.
  worker INTEGER NOT NULL,         -- Number of the worker, from 0.
  label VARCHAR NOT NULL,          -- Kernel, and its variant where one was named: pointer_chase:private.
  kernel VARCHAR NOT NULL,         -- Kernel.
  variant VARCHAR,                 -- Variant that ran.
  ns_per_iteration DOUBLE,         -- Median length of an iteration.
  cycles_per_iteration DOUBLE,     -- The same in core cycles.
  ghz_before DOUBLE,               -- Clock of its core right before its interval, by 64 dependent additions.
  ghz_after DOUBLE,                -- Clock of its core right after all workers ended.
  predicted_slowdown DOUBLE,       -- How many times slower than alone it was expected to be; NULL: nothing is known.
  predicted_basis VARCHAR,         -- What the expectation rests on.
  requests BIGINT,                 -- Requests served; NULL: none were to be.
  late_starts BIGINT,              -- Requests that arrived while the worker was busy.
  busy_ns BIGINT,                  -- Time from each request's begin to its end.
  interval_ns BIGINT,              -- Time over which requests were counted.
  frames BIGINT,                   -- Frames measured; NULL: none were to be.
  missed_frames BIGINT             -- Frames that began late.
);

CREATE TABLE worker_latency (
  trace_id BIGINT NOT NULL,        -- Recording of this cell.
  worker INTEGER NOT NULL,         -- Number of the worker.
  bucket_ns BIGINT NOT NULL,       -- Longest latency that the bucket takes; it is at most 1/64 wide.
  requests BIGINT NOT NULL         -- Requests (or frames) in it.
);

CREATE TABLE calibration (
  trace_id BIGINT NOT NULL,        -- Recording that it fits: the same machine.
  workload VARCHAR NOT NULL,       -- Kernel.
  variant VARCHAR,                 -- Variant of the kernel.
  core_type VARCHAR,               -- Core type; NULL: unknown.
  yield DOUBLE,                    -- Y: both siblings together / one alone; NULL: not measured.
  yield_low DOUBLE,                -- Lower end of its interval.
  yield_high DOUBLE,               -- Upper end of its interval.
  alone_per_s DOUBLE,              -- Work a second of one worker alone on a core.
  repeats INTEGER NOT NULL,        -- Repeats behind it.
  measured_utc VARCHAR NOT NULL    -- When it was measured.
);
