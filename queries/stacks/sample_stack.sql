-- Which code ran: samples in the window by thread and stack, and how many of them hit an E core or
-- a core whose other logical CPU was busy.
-- No rows without: sample.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  place AS (
    SELECT trace_id, cpu, any_value(core) AS core, any_value(core_type) AS core_type
    FROM cpu
    GROUP BY trace_id, cpu
  ),
  hit AS (
    SELECT s.trace_id, s.ts, s.cpu, s.seq, s.utid, s.event, s.stack_id, place.core, place.core_type
    FROM sample AS s
    JOIN span ON span.trace_id = s.trace_id
    LEFT JOIN place ON place.trace_id = s.trace_id AND place.cpu = s.cpu
    SEMI JOIN who ON who.utid = s.utid
    WHERE s.ts BETWEEN span.start_ns AND span.end_ns
  ),
  near AS (
    SELECT hit.trace_id, hit.cpu, hit.seq, hit.ts, other.cpu AS sibling
    FROM hit
    JOIN place AS other
      ON other.trace_id = hit.trace_id AND other.core = hit.core AND other.cpu <> hit.cpu
  ),
  shared AS (
    SELECT
      near.trace_id,
      near.cpu,
      near.seq,
      bool_or(c.state IN ('thread', 'interrupt')) AS is_busy,
    FROM near
    ASOF JOIN cpu_state AS c
      ON c.trace_id = near.trace_id AND c.cpu = near.sibling AND near.ts >= c.ts
    WHERE near.ts < c.ts + c.dur AND c.state <> 'unknown'
    GROUP BY near.trace_id, near.cpu, near.seq
  ),
  counted AS (
    SELECT
      hit.utid,
      hit.event,
      named.folded,
      named.frame,
      min(hit.stack_id) AS stack_id,
      count(*) AS samples,
      count(*) FILTER (WHERE hit.core_type IN ('E', 'LP-E')) AS e_core_samples,
      count(*) FILTER (WHERE shared.is_busy) AS sibling_busy_samples,
      count(*) FILTER (WHERE shared.is_busy IS NOT NULL) AS sibling_known_samples,
    FROM hit
    LEFT JOIN shared USING (trace_id, cpu, seq)
    LEFT JOIN stack_text(p_trace_id) AS named ON named.stack_id = hit.stack_id
    GROUP BY hit.utid, hit.event, named.folded, named.frame
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Process; null if not recorded.
  who.process,
  -- Name of the thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  who.utid,
  -- What was sampled: cpu-clock, cycles, ...
  counted.event,
  -- One of the stacks with these functions; null if none was recorded.
  counted.stack_id,
  -- Innermost function; [no stack] if none was recorded.
  coalesce(counted.frame, '[no stack]') AS frame,
  -- Samples.
  counted.samples,
  -- Samples on E cores.
  counted.e_core_samples,
  -- Samples while another logical CPU of the core ran a thread or an interrupt.
  counted.sibling_busy_samples,
  -- Samples for which that is known; 0 without SMT.
  counted.sibling_known_samples,
  -- All functions from the outermost to the innermost, separated by semicolons; null if none was
  -- recorded.
  counted.folded,
FROM counted
JOIN who ON who.utid = counted.utid
ORDER BY who.trace_id, counted.samples DESC, who.utid, counted.event, counted.stack_id;
