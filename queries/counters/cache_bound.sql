-- Where the cycles of each thread go, by core type, as far as its counters show it: misses of L2 and
-- L3, cycles stalled on L3 and on memory, top-down level 1, and the use of execution ports. Each
-- value is null unless its counters were recorded at switches (counter_meaning). L3 bound is the
-- share of cycles stalled on a load that missed L2 and hit L3 (Intel's top-down method).
-- No rows without: counter_delta.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  counted AS (
    SELECT
      d.trace_id,
      d.utid,
      d.core_type,
      m.meaning,
      sum(d.delta)::DOUBLE AS events,
      sum(d.dur) AS dur,
    FROM counter_delta AS d
    JOIN span ON span.trace_id = d.trace_id
    JOIN counter_meaning(p_trace_id) AS m ON m.trace_id = d.trace_id AND m.counter = d.counter
    WHERE d.ts >= span.start_ns AND d.ts + d.dur <= span.end_ns
    GROUP BY d.trace_id, d.utid, d.core_type, m.meaning
  ),
  of_thread AS (
    SELECT
      utid,
      core_type,
      max(dur)::BIGINT AS dur,
      max(events) FILTER (WHERE meaning = 'cycles') AS cycles,
      max(events) FILTER (WHERE meaning = 'instructions') AS instructions,
      max(events) FILTER (WHERE meaning = 'l2_misses') AS l2_misses,
      max(events) FILTER (WHERE meaning = 'l3_misses') AS l3_misses,
      max(events) FILTER (WHERE meaning = 'stalls_l2_miss') AS stalls_l2,
      max(events) FILTER (WHERE meaning = 'stalls_l3_miss') AS stalls_l3,
      max(events) FILTER (WHERE meaning = 'retiring') AS retiring,
      max(events) FILTER (WHERE meaning = 'bad_speculation') AS bad_speculation,
      max(events) FILTER (WHERE meaning = 'frontend') AS frontend,
      max(events) FILTER (WHERE meaning = 'backend') AS backend,
      max(events) FILTER (WHERE meaning = 'retired_ops') AS retired_ops,
      max(events) FILTER (WHERE meaning = 'dispatched_ops') AS dispatched_ops,
    FROM counted
    GROUP BY utid, core_type
  ),
  port AS (
    SELECT
      c.utid,
      c.core_type,
      map_from_entries(list(
        (c.meaning, round(100.0 * c.events / nullif(o.cycles, 0), 1)) ORDER BY c.meaning
      )) AS pct,
    FROM counted AS c
    JOIN of_thread AS o ON o.utid = c.utid AND o.core_type IS NOT DISTINCT FROM c.core_type
    WHERE starts_with(c.meaning, 'port_')
    GROUP BY c.utid, c.core_type
  ),
  slotted AS (
    SELECT
      *,
      -- greatest() ignores NULL.
      CASE WHEN stalls_l2 IS NOT NULL AND stalls_l3 IS NOT NULL
        THEN greatest(0, stalls_l2 - stalls_l3) END AS stalls_l3_hit,
      CASE WHEN dispatched_ops IS NOT NULL AND retired_ops IS NOT NULL
        THEN greatest(0, dispatched_ops - retired_ops) END AS wasted_ops,
      -- Intel counts all four in slots. AMD's cores of these events dispatch six operations a cycle.
      CASE
        WHEN retiring IS NOT NULL THEN retiring + bad_speculation + frontend + backend
        WHEN retired_ops IS NOT NULL THEN 6 * cycles
      END AS slots,
    FROM of_thread
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
  s.core_type,
  -- Time between the counter readings that count, ns. (no bounds)
  s.dur,
  -- Cycles per instruction (CPI).
  s.cycles / nullif(s.instructions, 0) AS cpi,
  -- L2 misses per 1000 instructions.
  1000 * s.l2_misses / nullif(s.instructions, 0) AS l2_misses_per_1000,
  -- L3 misses per 1000 instructions.
  1000 * s.l3_misses / nullif(s.instructions, 0) AS l3_misses_per_1000,
  -- Cycles stalled on loads that missed L2 and hit L3, percent of all cycles. (no bounds)
  100.0 * s.stalls_l3_hit / nullif(s.cycles, 0) AS l3_bound_pct,
  -- Cycles stalled on loads that missed L3, percent of all cycles. (no bounds)
  100.0 * s.stalls_l3 / nullif(s.cycles, 0) AS memory_bound_pct,
  -- Slots that retired operations, percent. (no bounds)
  100.0 * coalesce(s.retiring, s.retired_ops) / nullif(s.slots, 0) AS retiring_pct,
  -- Slots spent on operations that did not retire, percent. (no bounds)
  100.0 * coalesce(s.bad_speculation, s.wasted_ops)
    / nullif(s.slots, 0) AS bad_speculation_pct,
  -- Slots without an operation from the front end, percent. (no bounds)
  100.0 * s.frontend / nullif(s.slots, 0) AS frontend_pct,
  -- Slots that waited for the back end (execution and memory), percent. (no bounds)
  100.0 * s.backend / nullif(s.slots, 0) AS backend_pct,
  -- Micro-operations on each execution port that was counted, percent of cycles; null if none was.
  port.pct AS port_pct,
FROM slotted AS s
JOIN who ON who.utid = s.utid
LEFT JOIN port ON port.utid = s.utid AND port.core_type IS NOT DISTINCT FROM s.core_type
ORDER BY who.trace_id, s.dur DESC, who.utid, s.core_type;
