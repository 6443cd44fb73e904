-- The recordings of a lake, newest first, each with its worst finding: where to continue from a fleet query.
-- p_machine: only this machine; null for all.
-- p_build: only this build; null for all.
WITH
  ranked AS (
    SELECT
      owner,
      severity,
      title,
      count(*) OVER (PARTITION BY owner) AS findings,
      row_number() OVER (PARTITION BY owner ORDER BY finding_id) AS place,
    FROM lake_finding
  )
SELECT
  -- Recording: `schedlens fleet-report LAKE --recording` takes this number.
  m.trace_id,
  -- Name of the step or of the file.
  m.label,
  -- Machine.
  m.machine,
  -- Build of the recorded software.
  m.build,
  -- Day of the recording.
  m.date,
  -- Findings about it and, for the first recording of a session, about the session.
  coalesce(r.findings, 0) AS findings,
  -- Severity of the first of them; null if there is none.
  r.severity,
  -- Title of the first of them; null if there is none.
  r.title,
  -- Whether its records and states are still in the lake.
  m.is_raw,
FROM manifest AS m
LEFT JOIN ranked AS r ON r.owner = m.trace_id AND r.place = 1
WHERE (p_machine IS NULL OR m.machine = p_machine) AND (p_build IS NULL OR m.build = p_build)
ORDER BY m.start_time_utc DESC NULLS LAST, m.date DESC, m.trace_id;
