-- The logical CPUs each thread may use over time: intervals that cover all time for each thread. If
-- no affinity is recorded, and before the first record, the CPUs the thread ran on.
-- p_trace_id: only this recording; null for all.
WITH
  -- If several affinities start at the same time, a recorded change or pin overrides a reading;
  -- then the later record applies.
  recorded AS (
    SELECT
      trace_id,
      utid,
      coalesce(valid_from_ns, -9223372036854775807) AS from_ns,
      list_sort(cpus) AS cpus,
      source,
    FROM affinity
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    QUALIFY row_number() OVER (
      PARTITION BY utid, valid_from_ns
      ORDER BY
        list_position(
          ['event', 'pin', 'kernel_thread', 'reading', 'snapshot', 'rundown'], source
        ),
        rowid DESC
    ) = 1
  ),
  seen AS (
    SELECT s.trace_id, s.utid, list_sort(list(s.cpu)) AS cpus
    FROM (
      SELECT DISTINCT trace_id, utid, cpu
      FROM sched_slice
      WHERE NOT is_idle AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    ) AS s
    ANTI JOIN (SELECT utid FROM recorded WHERE from_ns = -9223372036854775807) AS known
      ON known.utid = s.utid
    GROUP BY s.trace_id, s.utid
  ),
  spell AS (
    SELECT *, true AS is_known FROM recorded
    UNION ALL
    SELECT trace_id, utid, -9223372036854775807, cpus, NULL, false FROM seen
  )
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- When it starts to apply, ns; the smallest number: from the beginning. (time)
  from_ns::BIGINT AS from_ns,
  -- When it stops applying, ns; the largest number: to the end. (time)
  coalesce(lead(from_ns) OVER (PARTITION BY utid ORDER BY from_ns), 9223372036854775807)::BIGINT
    AS to_ns,
  -- Logical CPUs it may use, in order.
  cpus,
  -- False: the CPUs it ran on (a lower bound).
  is_known,
  -- Source: snapshot, reading, pin, event, rundown or kernel_thread; null if not recorded.
  source,
FROM spell
ORDER BY trace_id, utid, from_ns;
