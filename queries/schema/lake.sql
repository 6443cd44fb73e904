-- Tables of a lake only: the fleet that its recordings are from, and what `--retain` keeps of them.

CREATE TABLE manifest (
  trace_id BIGINT NOT NULL,        -- Recording.
  label VARCHAR NOT NULL,          -- Name of the step or of the file.
  machine VARCHAR NOT NULL,        -- Machine: as given, else the host in the recording, else unknown.
  build VARCHAR NOT NULL,          -- Build of the recorded software: as given, else unknown.
  date DATE NOT NULL,              -- Day of the recording (UTC).
  start_time_utc TIMESTAMP,        -- Wall time at ns 0; NULL if the file does not contain it.
  cpu_model VARCHAR,               -- CPU model as the system reports it.
  os VARCHAR,                      -- Operating system and kernel release.
  cpus INTEGER,                    -- Logical CPUs.
  cores VARCHAR,                   -- Cores by type, such as 8 P + 8 E; NULL if unknown.
  duration_ns BIGINT,              -- Length of the recording.
  session BIGINT NOT NULL,         -- First recording that was analyzed together with this one.
  is_raw BOOLEAN NOT NULL,         -- Records and states are in the lake; false: removed by --retain.
  source VARCHAR,                  -- First file it was read from.
  source_bytes BIGINT NOT NULL,    -- Size of the files it was read from.
  lake_bytes BIGINT NOT NULL,      -- Size of its files in the lake.
  rows BIGINT NOT NULL,            -- Rows of all its tables.
  sha256 VARCHAR NOT NULL,         -- Hash of the content of its files, which identifies it.
  revision VARCHAR NOT NULL,       -- Hash of content, version, labels, and options: changes with the rows.
  tool_version VARCHAR NOT NULL,   -- Version of schedlens that wrote the rows.
  written_utc TIMESTAMP NOT NULL   -- When the recording was written to the lake.
);

CREATE TABLE sketch (
  trace_id BIGINT NOT NULL,        -- Recording.
  metric VARCHAR NOT NULL,         -- ready_ns: before each slice; slice_ns: length of each slice; frame_ns: length of each frame.
  count BIGINT NOT NULL,           -- Values in the window.
  sum_ns BIGINT NOT NULL,          -- Their sum.
  min_ns BIGINT NOT NULL,          -- Smallest value.
  max_ns BIGINT NOT NULL,          -- Largest value.
  sketch BLOB NOT NULL             -- KLL sketch of the values (datasketches, kll_doubles_sketch).
);

CREATE TABLE extract (
  trace_id BIGINT NOT NULL,        -- Recording.
  process_key VARCHAR,             -- Process: hash of its name with a secret of the lake; NULL if not recorded.
  thread_key VARCHAR,              -- Thread: hash of its name with a secret of the lake; NULL if not recorded.
  threads BIGINT NOT NULL,         -- Threads of these names.
  run_ns BIGINT,                   -- Running time in the window.
  ready_ns BIGINT,                 -- Ready time in the window.
  wait_ns BIGINT,                  -- Waiting time in the window.
  slices BIGINT                    -- Slices that begin in the window.
);

CREATE TABLE lake_finding (
  owner BIGINT NOT NULL,           -- Recording whose files contain it: that of trace_id, or the first of its session.
  finding_id INTEGER NOT NULL,     -- Number, in the order in which findings of one session are shown.
  trace_id BIGINT,                 -- Recording it is about; NULL: the whole session.
  analyzer VARCHAR NOT NULL,       -- Analyzer that found it.
  kind VARCHAR NOT NULL,           -- Kind of finding, unique within the analyzer.
  severity VARCHAR NOT NULL,       -- critical, warning or info.
  rank INTEGER NOT NULL,           -- As in finding.
  title VARCHAR NOT NULL,          -- The problem and its size.
  cost_ns BIGINT,                  -- What it cost; NULL where the cost is not a time.
  cost_pct DOUBLE,                 -- Cost as a share; NULL where it is none.
  bound VARCHAR                    -- As in finding.
);

CREATE TABLE set_aside (
  source VARCHAR NOT NULL,         -- First file of a recording that could not be analyzed.
  reason VARCHAR NOT NULL,         -- Why, in one line.
  attempts INTEGER NOT NULL,       -- How often it was tried.
  set_aside_utc TIMESTAMP NOT NULL -- When it was set aside.
);
