-- Recorded changes of affinities: whose, when, and which thread set it. A program that sets its own,
-- such as taskset before it becomes another program, has the name that it had then. Linux: only what
-- sched_setaffinity did, and only with `collect --affinity-calls`; cpusets are changed otherwise.
-- No rows without: affinity_change.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  change AS (
    SELECT c.*, lead(c.ts) OVER (PARTITION BY c.utid ORDER BY c.ts) AS next_ns
    FROM affinity_change AS c
    WHERE p_trace_id IS NULL OR c.trace_id = p_trace_id
  ),
  named AS (
    SELECT c.*, n.name AS setter_name
    FROM change AS c
    ASOF LEFT JOIN (
      SELECT utid, coalesce(ts, -9223372036854775807) AS ts, name FROM thread_name
    ) AS n ON n.utid = c.setter_utid AND n.ts <= c.ts
  ),
  -- What applies at the end was read there.
  final AS (
    SELECT utid, cpus
    FROM affinity_spell(p_trace_id)
    WHERE is_known AND to_ns = 9223372036854775807
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name of the process whose thread it is; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  who.utid,
  -- When it was set. (time)
  named.ts,
  -- Logical CPUs allowed from then on, in order; null if not recorded. On Linux known after the last
  -- change only, from readings.
  coalesce(named.cpus, CASE WHEN named.next_ns IS NULL THEN final.cpus END) AS cpus,
  -- Process of the thread that set it, by its last name; null if not recorded.
  setter.process AS setter_process,
  -- Name of that thread at that time; null if not recorded.
  coalesce(named.setter_name, setter.thread) AS setter_thread,
  -- Its thread id.
  setter.tid AS setter_tid,
  -- That thread, unique in the database.
  named.setter_utid,
FROM named
JOIN span
  ON span.trace_id = named.trace_id AND named.ts >= span.start_ns AND named.ts < span.end_ns
JOIN who ON who.utid = named.utid
LEFT JOIN thread_with_process(p_trace_id, NULL) AS setter ON setter.utid = named.setter_utid
LEFT JOIN final ON final.utid = named.utid
ORDER BY who.trace_id, named.ts, who.utid;
