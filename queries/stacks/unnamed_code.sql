-- Which files contain functions without a name, or with that of the nearest export alone, how often
-- they are in stacks, and what gives them names.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
WITH RECURSIVE
  record AS (
    SELECT trace_id, stack_id, count(*) AS records
    FROM (
      SELECT trace_id, coalesce(stack_id, next_stack_id) AS stack_id FROM context_switch
      UNION ALL
      SELECT trace_id, stack_id FROM wakeup
      UNION ALL
      SELECT trace_id, stack_id FROM sample
    )
    WHERE stack_id IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    GROUP BY trace_id, stack_id
  ),
  climbed AS (
    FROM record
    UNION ALL
    SELECT c.trace_id, s.parent_id, c.records
    FROM climbed AS c
    JOIN stack AS s ON s.stack_id = c.stack_id
    -- Each caller is less deep, so that damaged stacks that call each other end.
    JOIN stack AS caller ON caller.stack_id = s.parent_id AND caller.depth < s.depth
  ),
  counted AS (
    SELECT
      c.trace_id,
      f.module,
      f.build_id,
      f.unknown_reason,
      sum(c.records)::BIGINT AS frames,
      coalesce(sum(c.records) FILTER (WHERE f.symbol IS NOT NULL), 0)::BIGINT AS approximate_frames,
    FROM climbed AS c
    JOIN stack AS s ON s.stack_id = c.stack_id
    JOIN frame_symbol AS f ON f.frame_id = s.frame_id
    GROUP BY c.trace_id, f.module, f.build_id, f.unknown_reason
  ),
  total AS (SELECT trace_id, sum(frames) AS frames FROM counted GROUP BY trace_id)
SELECT
  -- Recording.
  counted.trace_id,
  -- File that contains the code; null if no mapping was recorded.
  counted.module,
  -- Its build id; null if not recorded.
  counted.build_id,
  -- Functions in stacks without an exact name, each as often as it was recorded.
  counted.frames,
  -- Of these, functions with the name of the nearest exported function below.
  counted.approximate_frames,
  -- Functions without an exact name as a share of all functions in stacks, percent.
  100.0 * counted.frames / total.frames AS frames_pct,
  -- Why, as in frame_symbol.
  counted.unknown_reason AS reason,
  -- What gives these functions names.
  CASE counted.unknown_reason
    WHEN 'stripped'
      THEN 'Install the debug package of this file, analyze with --debuginfod and DEBUGINFOD_URLS '
        || 'set to the server of its distribution, or build it without `strip`'
    WHEN 'file_missing'
      THEN 'Analyze on the machine that recorded, install the file at the same path, or analyze '
        || 'with --debuginfod and DEBUGINFOD_URLS set to the server of its distribution'
    WHEN 'other_build'
      THEN 'The file has changed since: install its debug file by build id below '
        || '/usr/lib/debug/.build-id, or record again'
    WHEN 'kernel_hidden'
      THEN 'Record with `sudo sysctl kernel.kptr_restrict=0`, or analyze on the same running system'
    WHEN 'generated_code'
      THEN 'Let the program write a perf map or a jitdump file: node --perf-basic-prof or '
        || '--perf-prof, java with perf-map-agent, DOTNET_PerfMapEnabled=1, python -X perf'
    WHEN 'unmapped'
      THEN 'The address is in no recorded mapping: record with --stacks dwarf, or build with '
        || '-fno-omit-frame-pointer'
    WHEN 'pdb_missing'
      THEN 'Put the PDB file with the signature ' || counted.build_id
        || ' into a folder of _NT_SYMBOL_PATH, or, if it is one of Microsoft, analyze with '
        || '--symbol-server https://msdl.microsoft.com/download/symbols'
    WHEN 'pdb_other_build'
      THEN 'The PDB file in _NT_SYMBOL_PATH is of another build: put the one with the signature '
        || counted.build_id || ' there'
    WHEN 'pdb_unreadable'
      THEN 'The PDB file in _NT_SYMBOL_PATH is damaged: copy or fetch it again'
    WHEN 'pdb_compressed'
      THEN 'The PDB file in _NT_SYMBOL_PATH is compressed: expand it next to itself, with '
        || '`cabextract FILE.pd_` on Linux or `expand -r FILE.pd_` on Windows'
    WHEN 'pdb_elsewhere'
      THEN 'The symbol store has a file.ptr that names a share or another place that is not here: '
        || 'copy the PDB file from there into a folder of _NT_SYMBOL_PATH'
    WHEN 'pdb_not_recorded'
      THEN 'The recording does not state its PDB file: merge it on the machine that recorded it '
        || '(xperf -merge IN.etl OUT.etl; wpr -stop does so)'
    WHEN 'unreadable' THEN 'Check that the file is a complete ELF file that you may read'
    WHEN 'no_file' THEN 'None: the kernel provides this code, and no file contains it'
    ELSE 'Build with -g, and with -fno-omit-frame-pointer or record with --stacks dwarf'
  END AS remedy,
FROM counted
JOIN total USING (trace_id)
WHERE counted.unknown_reason IS NOT NULL
ORDER BY counted.trace_id, counted.frames DESC, counted.module, counted.unknown_reason;
