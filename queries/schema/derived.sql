-- Derived tables: built once from the base tables by the state machine, for every source alike.

CREATE TABLE sched_slice (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  utid BIGINT NOT NULL,            -- Thread.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  ts BIGINT NOT NULL,              -- Switch-in.
  dur BIGINT NOT NULL,             -- Length of the slice.
  is_idle BOOLEAN NOT NULL,        -- True for a slice of the idle thread.
  priority INTEGER,                -- Priority at switch-in; for a slice that began before the trace, at switch-out; NULL on Windows for one that began in a gap.
  end_reason VARCHAR,              -- exit, blocked, quantum_end, quantum_end_or_yield, yield, preempted, throttled_or_moved, runnable_other, unknown or trace_end; NULL for idle threads.
  ready_ns BIGINT,                 -- From ready to switch-in.
  wait_ns BIGINT,                  -- From switch-out to ready.
  waker_utid BIGINT,               -- Thread whose wakeup started the ready period.
  prev_cpu INTEGER,                -- CPU of the thread's previous slice.
  left_censored BOOLEAN NOT NULL USING COMPRESSION RLE, -- The start was not seen.
  right_censored BOOLEAN NOT NULL USING COMPRESSION RLE -- The end was not seen.
);

-- What threads do that the slices do not show: thread_state has all.
CREATE TABLE thread_state_other (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  utid BIGINT NOT NULL,            -- Thread; idle threads have no rows.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT NOT NULL,             -- Length.
  state VARCHAR NOT NULL,          -- waiting, new or unknown; ready where no slice has its ready_ns.
  reason VARCHAR,                  -- Wait reason or Linux state of a waiting thread.
  waker_utid BIGINT,               -- Waker, if a wakeup started this ready state.
  left_censored BOOLEAN NOT NULL USING COMPRESSION RLE, -- The start was not seen.
  right_censored BOOLEAN NOT NULL USING COMPRESSION RLE -- The end was not seen.
);

-- States of CPUs on which no thread runs: cpu_state has all.
CREATE TABLE cpu_state_other (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  ts BIGINT NOT NULL,              -- Start.
  dur BIGINT NOT NULL,             -- Length.
  state VARCHAR NOT NULL           -- interrupt, idle, unknown or offline.
);

CREATE TABLE counter_delta (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  utid BIGINT NOT NULL,            -- Thread that ran.
  ts BIGINT NOT NULL,              -- Start: the previous counter reading.
  dur BIGINT NOT NULL,             -- Length.
  counter VARCHAR NOT NULL,        -- Name of the counter.
  core_type VARCHAR,               -- Core type of the CPU; NULL if unknown.
  delta BIGINT NOT NULL            -- Events counted.
);

CREATE TABLE finding (
  finding_id INTEGER NOT NULL,     -- Number, in the order in which findings are shown.
  trace_id BIGINT,                 -- Recording it is about; NULL: the whole session.
  analyzer VARCHAR NOT NULL,       -- Analyzer that found it.
  kind VARCHAR NOT NULL,           -- Kind of finding, unique within the analyzer; does not change with the wording.
  severity VARCHAR NOT NULL,       -- critical, warning or info.
  rank INTEGER NOT NULL,           -- 0: the answer to an experiment; 1: what a user notices; 2: a cause; 3: a sum that other findings explain.
  title VARCHAR NOT NULL,          -- The problem and its size in at most 12 words.
  detail VARCHAR NOT NULL,         -- One sentence with thread, CPU and numbers.
  advice VARCHAR NOT NULL,         -- What to do.
  cost_ns BIGINT,                  -- What it cost; NULL where the cost is not a time.
  cost_pct DOUBLE,                 -- Cost as a share; NULL where it is none.
  cost_of VARCHAR NOT NULL,        -- What cost_pct is a share of.
  utid BIGINT,                     -- Thread concerned most.
  cpu INTEGER,                     -- CPU concerned most.
  start_ns BIGINT,                 -- Begin of the evidence.
  end_ns BIGINT,                   -- End of the evidence.
  bound VARCHAR,                   -- exact; at_least; range: cost_low_ns to cost_high_ns, or up to cost_ns; NULL: not known.
  evidence_sql VARCHAR NOT NULL,   -- Returns the rows that the finding is computed from.
  counter_evidence_sql VARCHAR,    -- Returns rows that may speak against it.
  cost_low_ns BIGINT,              -- Lowest cost of a range; NULL: not known.
  cost_high_ns BIGINT,             -- Highest cost of a range; NULL: cost_ns.
  fix VARCHAR,                     -- Changes that a replay of the recording made, as `what-if --do` takes them, joined by ' + '; NULL: none was tried.
  frame_ns BIGINT,                 -- Mean recorded frame; NULL without a prediction.
  fixed_frame_ns BIGINT,           -- Mean frame with the fix, as the replay predicts it.
  fixed_low_ns BIGINT,             -- Lower end of its interval.
  fixed_high_ns BIGINT,            -- Upper end of its interval.
  no_gain_reason VARCHAR,          -- Why no gain is predicted, so that severity and order follow the cost; NULL: they follow the gain.
  gain_of VARCHAR,                 -- What the fix improves: frames (the mean), throughput (of a process) or responses (their 95th percentile); NULL without a prediction.
  gain_pct DOUBLE,                 -- By how much, percent: shorter frames and responses, higher throughput.
  gain_low_pct DOUBLE,             -- Lower end of its interval.
  gain_high_pct DOUBLE             -- Upper end of its interval.
);

-- How closely a replay without any change reproduces each recording. Above 10 % nothing is predicted.
CREATE TABLE replay_error (
  trace_id BIGINT NOT NULL,        -- Recording.
  process VARCHAR,                 -- Process whose frames or work are compared; NULL: none was replayed.
  figure VARCHAR,                  -- mean, p50, p95 or p99 of the frames, or throughput and percentiles of responses, running, or ready; NULL: nothing was replayed.
  error_pct DOUBLE,                -- Difference between replay and recording, percent.
  cannot_tell VARCHAR              -- Why nothing is predicted for the recording; NULL: gains are predicted.
);

-- What changes would gain, by replays of the recordings with each change that findings advise.
CREATE TABLE predicted_gain (
  trace_id BIGINT NOT NULL,        -- Recording.
  process VARCHAR,                 -- Process whose frames or work count.
  change VARCHAR NOT NULL,         -- The change, as `what-if --do` takes it; several are joined by ' + '.
  figure VARCHAR NOT NULL,         -- mean, p50, p95 or p99 of the frames (ns), stutters (number), throughput (seconds of work on the fastest core a second), or p50, p95 or p99 of responses (ns).
  recorded DOUBLE,                 -- Recorded value.
  predicted DOUBLE,                -- Value with the change; NULL: the replay cannot tell.
  low DOUBLE,                      -- Lower end of its interval.
  high DOUBLE,                     -- Upper end of its interval.
  gain_pct DOUBLE,                 -- By how much less the predicted value is, or how much higher the throughput, percent.
  cannot_tell VARCHAR,             -- Why nothing is predicted; NULL: something is.
  unit VARCHAR NOT NULL            -- What gains of the recording are of: frames (the mean), throughput, or responses (p95).
);

-- What each analyzer concluded: one row about the session, and one for each recording left out.
CREATE TABLE analyzer_outcome (
  trace_id BIGINT,                 -- Recording that the analyzer left out; NULL: its conclusion about the session.
  analyzer VARCHAR NOT NULL,       -- Analyzer.
  outcome VARCHAR NOT NULL,        -- found; clean: it looked and found no problem; not_applicable: the question does not arise; not_recorded: its events are missing; left_out: its query needs more memory than allowed.
  reason VARCHAR,                  -- What was checked, or why nothing was; NULL: the findings say it.
  missing VARCHAR[] NOT NULL,      -- Events that it needs and that are not recorded.
  record_with VARCHAR              -- Commands that record them; NULL: none is known.
);

-- The default window of shares.
CREATE TABLE analysis_window (
  trace_id BIGINT NOT NULL,        -- Recording.
  start_ns BIGINT NOT NULL,        -- Start.
  end_ns BIGINT NOT NULL,          -- End.
  kind VARCHAR NOT NULL            -- workers: the common measured interval of the workers; step: between the two snapshots; trace: from the first record to the last; asked: --from and --to.
);
