-- Cycles and instructions of each thread by core type, and its speed relative to P cores. Only time
-- between two counter readings at context switches counts. Requires counters named cycles and
-- instructions.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  spent AS (
    SELECT
      c.trace_id,
      c.utid,
      c.core_type,
      count(*) AS intervals,
      sum(c.dur)::BIGINT AS dur,
      sum(c.cycles)::BIGINT AS cycles,
      sum(c.instructions)::BIGINT AS instructions,
    FROM counter_interval(p_trace_id, p_from_ns, p_to_ns) AS c
    JOIN who ON who.utid = c.utid
    GROUP BY c.trace_id, c.utid, c.core_type
  ),
  rated AS (
    SELECT
      *,
      1e9 * instructions / nullif(dur, 0) AS per_s,
      max(1e9 * instructions / nullif(dur, 0)) FILTER (WHERE core_type IN ('P', 'U'))
        OVER (PARTITION BY utid) AS p_per_s,
    FROM spent
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name of the process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  who.utid,
  -- Core type: U (uniform), P, E or LP-E; null if unknown.
  rated.core_type,
  -- Intervals between two counter readings.
  rated.intervals,
  -- Total length of these intervals, ns. (no bounds)
  rated.dur,
  -- Cycles.
  rated.cycles,
  -- Instructions.
  rated.instructions,
  -- Cycles per instruction (CPI): ratio of the sums; null without instructions.
  rated.cycles / nullif(rated.instructions, 0) AS cpi,
  -- Instructions per second of running time.
  rated.per_s AS instructions_per_s,
  -- instructions_per_s relative to this thread on P cores; null if it was not measured there.
  rated.per_s / nullif(rated.p_per_s, 0) AS relative_to_p,
FROM rated
JOIN who ON who.utid = rated.utid
ORDER BY who.trace_id, sum(rated.dur) OVER (PARTITION BY who.utid) DESC, who.utid, core_type;
