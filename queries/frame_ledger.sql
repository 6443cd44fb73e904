-- Where the time of each frame went: the thread that presents (p_path false), or the critical path
-- (p_path true: at each moment the thread the frame waited for). The parts of a frame sum to its
-- length exactly. run_p_alone, run_p_shared (beside a busy sibling), run_e, run_other (core type
-- unknown or numbered), interrupt (on top of the running thread), ready_* by what stood in the
-- way, wait, new, unknown.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
-- p_path [false]: along the critical path instead of the presenting thread.
-- p_min_idle_ns [100000]: shortest idle interval that counts as available.
WITH
  chosen AS (
    SELECT trace_id, process, upid, frame, utid, start_ns, dur_ns, stutter
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE dur_ns > 0 AND utid IS NOT NULL
  ),
  segment AS (
    SELECT trace_id, upid, frame, utid, start_ns AS ts, start_ns + dur_ns AS end_ns
    FROM chosen
    WHERE NOT p_path
    UNION ALL
    SELECT p.trace_id, p.upid, p.frame, p.utid, p.ts, p.ts + p.dur
    FROM frame_path AS p
    SEMI JOIN chosen ON chosen.upid = p.upid AND chosen.frame = p.frame
    WHERE p_path
  ),
  who AS (SELECT DISTINCT upid, utid FROM segment),
  state AS (
    SELECT t.trace_id, t.utid, t.ts, t.ts + t.dur AS end_ns, t.state, t.cpu, t.reason
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
  hindered AS (
    SELECT r.utid, r.ts, r.ts + r.dur AS end_ns, r.obstacle
    FROM ready_obstacle_slice(p_trace_id, -9223372036854775807, 9223372036854775807, p_min_idle_ns)
      AS r
    SEMI JOIN who USING (utid)
    WHERE r.dur > 0
  ),
  -- Interrupts may overlap on a CPU: their union, as runs.
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
        count(*) FILTER (WHERE before_ns IS NULL OR ts > before_ns)
          OVER (PARTITION BY trace_id, cpu ORDER BY ts, seq ROWS UNBOUNDED PRECEDING) AS run,
      FROM hit
    )
    GROUP BY trace_id, cpu, run
  ),
  running AS (FROM state WHERE state.state = 'running'),
  -- The part of each interrupt that lies on top of one of the threads: those that begin in its
  -- stay, and the one that goes on from before it.
  cut_in AS (
    SELECT s.utid, m.ts, least(m.end_ns, s.end_ns) AS end_ns
    FROM merged AS m
    ASOF JOIN running AS s ON s.trace_id = m.trace_id AND s.cpu = m.cpu AND s.ts <= m.ts
    WHERE m.ts < s.end_ns
    UNION ALL
    SELECT s.utid, s.ts, least(m.end_ns, s.end_ns)
    FROM running AS s
    ASOF JOIN merged AS m ON m.trace_id = s.trace_id AND m.cpu = s.cpu AND m.ts < s.ts
    WHERE m.end_ns > s.ts
  ),
  edge AS (
    SELECT DISTINCT who.upid, cut.utid, cut.ts
    FROM who
    JOIN (
      SELECT utid, unnest([ts, end_ns]) AS ts FROM segment
      UNION ALL SELECT utid, unnest([ts, end_ns]) FROM state
      UNION ALL SELECT utid, unnest([ts, end_ns]) FROM shared
      UNION ALL SELECT utid, unnest([ts, end_ns]) FROM hindered
      UNION ALL SELECT utid, unnest([ts, end_ns]) FROM cut_in
      UNION ALL
      SELECT who.utid, cpu.valid_from_ns
      FROM cpu
      JOIN thread ON thread.trace_id = cpu.trace_id
      JOIN who ON who.utid = thread.utid
      WHERE cpu.valid_from_ns IS NOT NULL
    ) AS cut ON cut.utid = who.utid
  ),
  piece AS (
    SELECT
      upid,
      utid,
      ts,
      lead(ts) OVER (PARTITION BY upid, utid ORDER BY ts) AS end_ns,
    FROM edge
  ),
  -- Every piece lies wholly inside or outside of whatever began last at its begin.
  framed AS (
    SELECT segment.trace_id, segment.upid, segment.frame, piece.utid, piece.ts, piece.end_ns
    FROM piece
    ASOF JOIN segment
      ON segment.upid = piece.upid AND segment.utid = piece.utid AND segment.ts <= piece.ts
    WHERE piece.end_ns IS NOT NULL AND piece.ts < segment.end_ns
  ),
  stated AS (
    SELECT
      framed.*,
      CASE WHEN framed.ts < state.end_ns THEN state.state END AS state,
      state.cpu,
      state.reason,
    FROM framed
    ASOF LEFT JOIN state ON state.utid = framed.utid AND state.ts <= framed.ts
  ),
  accompanied AS (
    SELECT stated.*, coalesce(stated.ts < shared.end_ns, false) AS is_shared
    FROM stated
    ASOF LEFT JOIN shared ON shared.utid = stated.utid AND shared.ts <= stated.ts
  ),
  explained AS (
    SELECT
      accompanied.*,
      CASE WHEN accompanied.ts < hindered.end_ns THEN hindered.obstacle END AS obstacle,
    FROM accompanied
    ASOF LEFT JOIN hindered
      ON hindered.utid = accompanied.utid AND hindered.ts <= accompanied.ts
  ),
  interrupted AS (
    SELECT explained.*, coalesce(explained.ts < cut_in.end_ns, false) AS is_interrupted
    FROM explained
    ASOF LEFT JOIN cut_in ON cut_in.utid = explained.utid AND cut_in.ts <= explained.ts
  ),
  placed AS (
    SELECT interrupted.*, place.core_type
    FROM interrupted
    LEFT JOIN topology(p_trace_id) AS place
      ON place.trace_id = interrupted.trace_id AND place.cpu = interrupted.cpu
      AND interrupted.ts >= place.from_ns AND interrupted.ts < place.to_ns
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
  -- Name of the process that presents.
  any_value(chosen.process) AS process,
  -- Process, unique in the database.
  chosen.upid,
  -- Number of the frame in its process.
  chosen.frame,
  -- Begin of the frame, ns.
  any_value(chosen.start_ns) AS start_ns,
  -- Length of the frame, ns: the sum of its parts.
  any_value(chosen.dur_ns) AS frame_ns,
  -- The frame stuttered.
  any_value(chosen.stutter) AS stutter,
  -- Thread, unique in the database.
  named.utid,
  -- What the time went into.
  named.part,
  -- Wait reason of a wait, where recorded.
  named.reason,
  -- Time in it, ns.
  sum(named.dur)::BIGINT AS dur,
FROM named
JOIN chosen ON chosen.upid = named.upid AND chosen.frame = named.frame
GROUP BY chosen.trace_id, chosen.upid, chosen.frame, named.utid, named.part, named.reason
ORDER BY chosen.trace_id, process, chosen.upid, start_ns, chosen.frame, dur DESC, named.utid,
  named.part, named.reason;
