-- Mean number of logical CPUs that were busy during each frame, for the machine and for the threads
-- of the presenting process, with the capacity lines P, P+E, P+E+SMT.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
WITH
  chosen AS (
    SELECT trace_id, process, upid, frame, start_ns, start_ns + dur_ns AS end_ns, dur_ns, stutter
    FROM frame_time(p_trace_id, p_from_ns, p_to_ns, p_process)
    WHERE dur_ns > 0
  ),
  presenter AS (SELECT DISTINCT trace_id, upid FROM chosen),
  -- Changes of each number: for the machine (upid 0), and for the threads of each process.
  step AS (
    SELECT trace_id, 0 AS upid, ts, busy, unknown, ready, p, e, smt
    FROM concurrency_slice
    SEMI JOIN presenter USING (trace_id)
    UNION ALL
    SELECT trace_id, 0, ts + dur, -busy, -unknown, -ready, -p, -e, -smt
    FROM concurrency_slice
    SEMI JOIN presenter USING (trace_id)
    UNION ALL
    SELECT s.trace_id, t.upid, unnest([s.ts, s.ts + s.dur]), unnest([1, -1]), 0, 0, 0, 0, 0
    FROM cpu_state AS s
    JOIN thread AS t ON t.utid = s.utid
    SEMI JOIN presenter ON presenter.upid = t.upid
    WHERE s.state = 'thread' AND s.dur > 0
  ),
  -- Starts (sign -1) and ends (1) of frames, for the machine and for the process.
  side AS (
    SELECT
      trace_id,
      upid AS own,
      frame,
      unnest([0, 0, upid, upid]) AS upid,
      unnest([start_ns, end_ns, start_ns, end_ns]) AS ts,
      unnest([-1, 1, -1, 1]) AS sign,
    FROM chosen
  ),
  edge AS (SELECT DISTINCT trace_id, upid, ts FROM side),
  -- A change d at s adds d * (t - s) to the integral up to t. Of all changes before an edge, the sums
  -- of d and of d * s are enough, and there are few edges.
  since_edge AS (
    SELECT
      edge.trace_id,
      edge.upid,
      edge.ts,
      sum(step.busy) AS busy,
      sum(step.busy * step.ts) AS busy_at,
      sum(step.unknown) AS unknown,
      sum(step.unknown * step.ts) AS unknown_at,
      sum(step.ready) AS ready,
      sum(step.ready * step.ts) AS ready_at,
      sum(step.p) AS p,
      sum(step.p * step.ts) AS p_at,
      sum(step.e) AS e,
      sum(step.e * step.ts) AS e_at,
      sum(step.smt) AS smt,
      sum(step.smt * step.ts) AS smt_at,
    FROM step
    ASOF JOIN edge
      ON edge.trace_id = step.trace_id AND edge.upid = step.upid AND step.ts <= edge.ts
    GROUP BY edge.trace_id, edge.upid, edge.ts
  ),
  upto AS (
    SELECT
      edge.trace_id,
      edge.upid,
      edge.ts,
      coalesce(edge.ts * sum(busy) OVER sofar - sum(busy_at) OVER sofar, 0) AS busy,
      coalesce(edge.ts * sum(unknown) OVER sofar - sum(unknown_at) OVER sofar, 0) AS unknown,
      coalesce(edge.ts * sum(ready) OVER sofar - sum(ready_at) OVER sofar, 0) AS ready,
      coalesce(edge.ts * sum(p) OVER sofar - sum(p_at) OVER sofar, 0) AS p,
      coalesce(edge.ts * sum(e) OVER sofar - sum(e_at) OVER sofar, 0) AS e,
      coalesce(edge.ts * sum(smt) OVER sofar - sum(smt_at) OVER sofar, 0) AS smt,
    FROM edge
    LEFT JOIN since_edge USING (trace_id, upid, ts)
    WINDOW sofar AS (
      PARTITION BY edge.trace_id, edge.upid ORDER BY edge.ts ROWS UNBOUNDED PRECEDING
    )
  ),
  summed AS (
    SELECT
      side.own AS upid,
      side.frame,
      sum(sign * busy) FILTER (WHERE side.upid = 0) AS busy,
      sum(sign * busy) FILTER (WHERE side.upid <> 0) AS own_busy,
      sum(sign * unknown) FILTER (WHERE side.upid = 0) AS unknown,
      sum(sign * ready) FILTER (WHERE side.upid = 0) AS ready,
      sum(sign * p) FILTER (WHERE side.upid = 0) AS p,
      sum(sign * e) FILTER (WHERE side.upid = 0) AS e,
      sum(sign * smt) FILTER (WHERE side.upid = 0) AS smt,
    FROM side
    JOIN upto USING (trace_id, upid, ts)
    GROUP BY side.own, side.frame
  ),
  -- The first and the last interval extend beyond the recording.
  line AS (
    SELECT
      * REPLACE (
        CASE WHEN lag(ts) OVER along IS NULL THEN -9223372036854775807 ELSE ts END AS ts
      ),
      coalesce(lead(ts) OVER along, 9223372036854775807) AS end_ns,
    FROM capacity_line(p_trace_id)
    WINDOW along AS (PARTITION BY trace_id ORDER BY ts)
  ),
  most AS (
    SELECT
      c.upid,
      c.frame,
      max(line.p_cores) AS p_cores,
      max(line.cores) AS cores,
      max(line.cpus) AS cpus,
    FROM chosen AS c
    JOIN line
      ON line.trace_id = c.trace_id AND line.ts < c.end_ns AND line.end_ns > c.start_ns
    GROUP BY c.upid, c.frame
  )
SELECT
  -- Recording.
  c.trace_id,
  -- Name of the presenting process.
  c.process,
  -- Process, unique in the database.
  c.upid,
  -- Number of the frame in its process.
  c.frame,
  -- Start, ns. (time)
  c.start_ns,
  -- Length, ns. (no bounds)
  c.dur_ns,
  -- True if the frame stuttered.
  c.stutter,
  -- Mean number of busy logical CPUs.
  s.busy / c.dur_ns AS busy,
  -- Mean number of CPUs running threads of this process.
  coalesce(s.own_busy, 0) / c.dur_ns AS own_busy,
  -- Mean number of logical CPUs in an unknown state: busy and own_busy may be higher by it.
  s.unknown / c.dur_ns AS unknown,
  -- Mean number of ready threads.
  s.ready / c.dur_ns AS ready,
  -- Mean number of P or U cores with a busy CPU.
  s.p / c.dur_ns AS p,
  -- Mean number of E or LP-E cores with a busy CPU.
  s.e / c.dur_ns AS e,
  -- Mean number of busy CPUs beyond the first of their core.
  s.smt / c.dur_ns AS smt,
  -- Capacity line P: largest number of P or U cores online at one moment of the frame.
  most.p_cores,
  -- Capacity line P+E: largest number of cores of any type.
  most.cores,
  -- Capacity line P+E+SMT: largest number of logical CPUs.
  most.cpus,
FROM chosen AS c
JOIN summed AS s ON s.upid = c.upid AND s.frame = c.frame
LEFT JOIN most ON most.upid = c.upid AND most.frame = c.frame
ORDER BY c.trace_id, c.process, c.upid, c.start_ns, c.frame;
