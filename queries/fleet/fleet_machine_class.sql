-- Machine classes: machines with the same CPU model, cores and system, which can be compared.
SELECT
  -- CPU model, cores, and system.
  concat_ws(', ', cpu_model, coalesce(cores, cpus || ' CPUs'), os) AS class,
  -- Machines.
  count(DISTINCT machine) AS machines,
  -- Recordings.
  count(*) AS recordings,
  -- Builds of the recorded software.
  count(DISTINCT build) AS builds,
  -- Day of the first recording.
  min(date) AS first_date,
  -- Day of the last recording.
  max(date) AS last_date,
  -- Length of all recordings, ns. (exact)
  sum(duration_ns)::BIGINT AS recorded_ns,
FROM manifest
GROUP BY class
ORDER BY recordings DESC, class;
