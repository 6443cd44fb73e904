-- Where the time of each frame went: along the presenting thread (p_path false), or along the
-- critical path (p_path true: at each moment, the thread that the frame waited for). The parts of a
-- frame sum exactly to its length: run_p_alone, run_p_shared (SMT sibling busy), run_p_unknown (the
-- state of a sibling, or which CPUs are siblings, is unknown), run_e, run_other (core type unknown
-- or numbered), interrupt (on top of the running thread), ready_* by cause, wait, new, unknown.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
-- p_path [false]: follow the critical path instead of the presenting thread.
-- p_min_idle_ns [100000]: shortest idle interval that counts as available.
WITH
  chosen AS (
    SELECT trace_id, process, upid, frame, utid, start_ns, dur_ns, stutter
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE dur_ns > 0 AND utid IS NOT NULL
  ),
  segment AS MATERIALIZED (
    SELECT *, row_number() OVER () AS id
    FROM (
      SELECT trace_id, upid, frame, utid, start_ns AS ts, start_ns + dur_ns AS end_ns
      FROM chosen
      WHERE NOT p_path
      UNION ALL
      SELECT p.trace_id, p.upid, p.frame, p.utid, p.ts, p.ts + p.dur
      FROM frame_path AS p
      SEMI JOIN chosen ON chosen.upid = p.upid AND chosen.frame = p.frame
      WHERE p_path AND p.dur > 0
    )
  ),
  who AS (SELECT DISTINCT upid, utid FROM segment),
  state AS MATERIALIZED (
    SELECT
      t.trace_id,
      t.utid,
      t.ts,
      t.ts + t.dur AS end_ns,
      t.state,
      t.cpu,
      t.reason,
      row_number() OVER () AS id,
    FROM thread_state AS t
    SEMI JOIN who USING (utid)
    WHERE t.dur > 0
  ),
  shared AS (
    SELECT s.utid, s.ts, s.ts + s.dur AS end_ns
    FROM sharing_slice AS s
    SEMI JOIN who USING (utid)
    WHERE s.dur > 0
  ),
  hindered AS MATERIALIZED (
    SELECT r.utid, r.ts, r.ts + r.dur AS end_ns, r.obstacle, row_number() OVER () AS id
    FROM ready_obstacle_slice(p_trace_id, -9223372036854775807, 9223372036854775807, p_min_idle_ns)
      AS r
    SEMI JOIN who USING (utid)
    WHERE r.dur > 0
  ),
  -- Interrupts on a CPU may overlap: this is their union.
  hit AS (
    SELECT
      trace_id,
      cpu,
      ts,
      seq,
      ts + dur AS end_ns,
      max(ts + dur) OVER (
        PARTITION BY trace_id, cpu ORDER BY ts, seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS before_ns,
    FROM interrupt_slice
    WHERE dur > 0 AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  merged AS (
    SELECT trace_id, cpu, min(ts) AS ts, max(end_ns) AS end_ns
    FROM (
      SELECT
        *,
        count(CASE WHEN before_ns IS NULL OR ts > before_ns THEN 1 END)
          OVER (PARTITION BY trace_id, cpu ORDER BY ts, seq ROWS UNBOUNDED PRECEDING) AS run,
      FROM hit
    )
    GROUP BY trace_id, cpu, run
  ),
  -- Periods in which the state of some CPU of a core is unknown. If two CPUs are busy, a busy
  -- sibling is certain.
  unclear AS (
    SELECT
      c.trace_id,
      place.cpu,
      greatest(c.ts, place.from_ns) AS ts,
      least(c.ts + c.dur, place.to_ns) AS end_ns,
    FROM core_state AS c
    JOIN topology(p_trace_id) AS place
      ON place.trace_id = c.trace_id AND place.core = c.core
      AND place.from_ns < c.ts + c.dur AND place.to_ns > c.ts
    WHERE c.unknown > 0 AND c.busy < 2 AND c.dur > 0
      AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  ),
  -- One stream per CPU contains its slices and the intervals on top of them; slices come first at
  -- equal times.
  on_cpu AS (
    SELECT
      kind,
      turn,
      ts,
      -- Intervals of one kind do not overlap, so the last one ends last; last_value would search
      -- backwards from each row.
      arg_max(utid, ts) OVER sofar AS utid,
      max(slice_end) OVER sofar AS slice_end,
      max(hit_end) OVER sofar AS hit_end,
    FROM (
      SELECT trace_id, cpu, kind, ts, 0 AS turn, utid, end_ns AS slice_end, NULL AS hit_end
      FROM state, (SELECT unnest(['interrupt', 'unclear']) AS kind)
      WHERE state.state = 'running'
      UNION ALL
      SELECT trace_id, cpu, 'interrupt', ts, 1, NULL, NULL, end_ns FROM merged
      UNION ALL
      SELECT trace_id, cpu, 'unclear', ts, 1, NULL, NULL, end_ns FROM unclear
    )
    WINDOW sofar AS (PARTITION BY trace_id, cpu, kind ORDER BY ts, turn ROWS UNBOUNDED PRECEDING)
  ),
  -- The part of each interval that overlaps a thread's slice: intervals that start in the slice,
  -- and the one that continues from before it.
  cut_in AS (
    SELECT kind, utid, ts, least(hit_end, slice_end) AS end_ns
    FROM on_cpu
    WHERE CASE WHEN turn = 1 THEN ts < slice_end ELSE ts < hit_end END
  ),
  -- One stream per thread contains everything that starts; the other rows are only edges. Each
  -- piece between two rows is entirely inside or outside the interval that started last.
  begun AS (
    SELECT upid, utid, ts, id AS segment_id, NULL AS state_id, NULL AS hindered_id,
      NULL AS shared_end, NULL AS hit_end, NULL AS unclear_end,
    FROM segment
    UNION ALL
    SELECT who.upid, event.*
    FROM (
      SELECT utid, end_ns AS ts, NULL, NULL, NULL, NULL, NULL, NULL FROM segment
      UNION ALL SELECT utid, ts, NULL, id, NULL, NULL, NULL, NULL FROM state
      UNION ALL SELECT utid, end_ns, NULL, NULL, NULL, NULL, NULL, NULL FROM state
      UNION ALL SELECT utid, ts, NULL, NULL, id, NULL, NULL, NULL FROM hindered
      UNION ALL SELECT utid, end_ns, NULL, NULL, NULL, NULL, NULL, NULL FROM hindered
      UNION ALL SELECT utid, ts, NULL, NULL, NULL, end_ns, NULL, NULL FROM shared
      UNION ALL SELECT utid, end_ns, NULL, NULL, NULL, NULL, NULL, NULL FROM shared
      UNION ALL
      SELECT utid, ts, NULL, NULL, NULL, NULL, CASE WHEN kind = 'interrupt' THEN end_ns END,
        CASE WHEN kind = 'unclear' THEN end_ns END,
      FROM cut_in
      UNION ALL SELECT utid, end_ns, NULL, NULL, NULL, NULL, NULL, NULL FROM cut_in
      UNION ALL
      SELECT w.utid, cpu.valid_from_ns, NULL, NULL, NULL, NULL, NULL, NULL
      FROM cpu
      JOIN thread ON thread.trace_id = cpu.trace_id
      JOIN (SELECT DISTINCT utid FROM who) AS w ON w.utid = thread.utid
      WHERE cpu.valid_from_ns IS NOT NULL
    ) AS event
    JOIN who ON who.utid = event.utid
  ),
  edge AS (
    SELECT
      upid,
      utid,
      ts,
      max(segment_id) AS segment_id,
      max(state_id) AS state_id,
      max(hindered_id) AS hindered_id,
      max(shared_end) AS shared_end,
      max(hit_end) AS hit_end,
      max(unclear_end) AS unclear_end,
    FROM begun
    GROUP BY upid, utid, ts
  ),
  piece AS (
    SELECT
      ts,
      lead(ts) OVER sofar AS end_ns,
      arg_max(segment_id, ts) OVER sofar AS segment_id,
      arg_max(state_id, ts) OVER sofar AS state_id,
      arg_max(hindered_id, ts) OVER sofar AS hindered_id,
      coalesce(ts < max(shared_end) OVER sofar, false) AS is_shared,
      coalesce(ts < max(hit_end) OVER sofar, false) AS is_interrupted,
      coalesce(ts < max(unclear_end) OVER sofar, false) AS is_unclear,
    FROM edge
    WINDOW sofar AS (PARTITION BY upid, utid ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  explained AS (
    SELECT
      segment.trace_id,
      segment.upid,
      segment.frame,
      segment.utid,
      piece.ts,
      piece.end_ns,
      CASE WHEN piece.ts < state.end_ns THEN state.state END AS state,
      state.cpu,
      state.reason,
      piece.is_shared,
      piece.is_interrupted,
      piece.is_unclear,
      CASE WHEN piece.ts < hindered.end_ns THEN hindered.obstacle END AS obstacle,
    FROM piece
    JOIN segment ON segment.id = piece.segment_id
    LEFT JOIN state ON state.id = piece.state_id
    LEFT JOIN hindered ON hindered.id = piece.hindered_id
    WHERE piece.end_ns IS NOT NULL AND piece.ts < segment.end_ns
  ),
  placed AS (
    SELECT explained.*, place.core, place.core_type
    FROM explained
    LEFT JOIN topology(p_trace_id) AS place
      ON place.trace_id = explained.trace_id AND place.cpu = explained.cpu
      AND explained.ts >= place.from_ns AND explained.ts < place.to_ns
  ),
  named AS (
    SELECT
      trace_id,
      upid,
      frame,
      utid,
      end_ns - ts AS dur,
      CASE
        WHEN state = 'running' AND is_interrupted THEN 'interrupt'
        WHEN state = 'running' AND core_type IN ('E', 'LP-E') THEN 'run_e'
        WHEN state = 'running' AND core_type IN ('P', 'U') AND is_shared THEN 'run_p_shared'
        WHEN state = 'running' AND core_type IN ('P', 'U') AND (is_unclear OR core IS NULL)
          THEN 'run_p_unknown'
        WHEN state = 'running' AND core_type IN ('P', 'U') THEN 'run_p_alone'
        WHEN state = 'running' THEN 'run_other'
        WHEN state = 'ready' THEN 'ready_' || coalesce(obstacle, 'unknown')
        WHEN state = 'waiting' THEN 'wait'
        WHEN state = 'new' THEN 'new'
        ELSE 'unknown'
      END AS part,
      CASE WHEN state = 'waiting' THEN reason END AS reason,
    FROM placed
  )
SELECT
  -- Recording.
  chosen.trace_id,
  -- Name of the presenting process.
  any_value(chosen.process) AS process,
  -- Process, unique in the database.
  chosen.upid,
  -- Number of the frame in its process.
  chosen.frame,
  -- Start of the frame, ns. (time)
  any_value(chosen.start_ns) AS start_ns,
  -- Length of the frame, ns: the sum of its parts. (no bounds)
  any_value(chosen.dur_ns) AS frame_ns,
  -- True if the frame stuttered.
  any_value(chosen.stutter) AS stutter,
  -- Thread, unique in the database.
  named.utid,
  -- Part of the frame: what the time was spent on.
  named.part,
  -- Wait reason of a wait, where recorded.
  named.reason,
  -- Time in this part, ns. (no bounds)
  sum(named.dur)::BIGINT AS dur,
FROM named
JOIN chosen ON chosen.upid = named.upid AND chosen.frame = named.frame
GROUP BY chosen.trace_id, chosen.upid, chosen.frame, named.utid, named.part, named.reason
ORDER BY chosen.trace_id, process, chosen.upid, start_ns, chosen.frame, dur DESC, named.utid,
  named.part, named.reason;
