-- Stacks: what the decoders read of the code that ran, woke, or waited. Only recordings with
-- callchains have rows here.

-- A prefix tree: stacks with the same callers share them. A stack is the node of its innermost
-- function; its callers are the nodes above it.
CREATE TABLE stack (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  stack_id BIGINT NOT NULL,        -- Number of the node, unique in the database.
  parent_id BIGINT,                -- Node of the caller; NULL for an outermost function.
  depth INTEGER NOT NULL,          -- Number of callers above it.
  frame_id BIGINT NOT NULL         -- Its function.
);

-- Functions at the addresses in stacks. An address in an inlined function has a row for it and one for
-- each function around it.
CREATE TABLE frame_symbol (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  frame_id BIGINT NOT NULL,        -- Number, unique in the database.
  module VARCHAR,                  -- File that contains the code; [kernel], [MODULE] of the kernel, [vdso], or [anonymous] for generated code; NULL: no mapping recorded.
  build_id VARCHAR,                -- Build id of the file, in hexadecimal (Windows: signature and age of its PDB); NULL if not recorded.
  address BIGINT NOT NULL,         -- Offset in the file (Windows: from where it is loaded); in the kernel of Linux and in generated code the address (unsigned 64 bits, read as signed).
  symbol VARCHAR,                  -- Name of the function, demangled, at most 4,096 bytes; NULL if unknown. Ends with (export) if it is only the nearest exported function below.
  symbol_source VARCHAR,           -- Where the name is from: elf (debug information or symbol table), pdb, kernel, compiler (jitdump, events of .NET), perf_map, or export (Windows, approximate: the nearest function below that the file exports); NULL without a name.
  file VARCHAR,                    -- Source file; NULL without debug information.
  line INTEGER,                    -- Line in it; NULL without debug information.
  is_inlined BOOLEAN NOT NULL,     -- The compiler inlined the function into the next one outwards.
  is_kernel BOOLEAN NOT NULL,      -- Code of the kernel.
  unknown_reason VARCHAR           -- Why the name is unknown, or only approximate: file_missing, other_build, unreadable, stripped (exported functions only), no_symbol, kernel_hidden, generated_code (no perf map), no_file (vdso), pdb_missing, pdb_other_build, pdb_unreadable, pdb_compressed (.pd_), pdb_elsewhere (file.ptr leads to a place that is not here) or pdb_not_recorded (Windows), or unmapped; NULL if it is known.
);

CREATE TABLE sample (
  trace_id BIGINT NOT NULL USING COMPRESSION RLE, -- Recording.
  ts BIGINT NOT NULL,              -- Time of the sample.
  cpu INTEGER NOT NULL,            -- Logical CPU.
  seq BIGINT NOT NULL,             -- Position in this CPU's stream, over all kinds of records.
  utid BIGINT,                     -- Thread that ran.
  event VARCHAR,                   -- What was sampled: cpu-clock, cycles, SampledProfile, ...
  period BIGINT,                   -- Events that the sample stands for (SampledProfile: ns); NULL if not recorded.
  stack_id BIGINT                  -- Stack of the thread; NULL if not recorded.
);
