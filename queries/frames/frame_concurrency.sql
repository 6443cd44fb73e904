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
  -- One stream contains these changes and the starts (sign -1) and ends (1) of frames. The integral
  -- up to an end minus that up to its start is exact.
  stream AS (
    SELECT *, 0 AS sign, NULL AS frame, NULL AS own FROM step
    UNION ALL
    SELECT trace_id, unnest([0, 0, upid, upid]), unnest([start_ns, end_ns, start_ns, end_ns]),
      0, 0, 0, 0, 0, 0, unnest([-1, 1, -1, 1]), frame, upid,
    FROM chosen
  ),
  level AS (
    SELECT
      trace_id,
      upid,
      own,
      frame,
      sign,
      row_number() OVER sofar AS place,
      lead(ts) OVER sofar - ts AS dur,
      sum(busy) OVER sofar AS busy,
      sum(unknown) OVER sofar AS unknown,
      sum(ready) OVER sofar AS ready,
      sum(p) OVER sofar AS p,
      sum(e) OVER sofar AS e,
      sum(smt) OVER sofar AS smt,
    FROM stream
    WINDOW sofar AS (PARTITION BY trace_id, upid ORDER BY ts ROWS UNBOUNDED PRECEDING)
  ),
  upto AS (
    SELECT
      trace_id,
      upid = 0 AS of_machine,
      own,
      frame,
      sign,
      sum(busy * dur) OVER sofar AS busy,
      sum(unknown * dur) OVER sofar AS unknown,
      sum(ready * dur) OVER sofar AS ready,
      sum(p * dur) OVER sofar AS p,
      sum(e * dur) OVER sofar AS e,
      sum(smt * dur) OVER sofar AS smt,
    FROM level
    WINDOW sofar AS (
      PARTITION BY trace_id, upid ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
  ),
  summed AS (
    SELECT
      own AS upid,
      frame,
      sum(sign * busy) FILTER (WHERE of_machine) AS busy,
      sum(sign * busy) FILTER (WHERE NOT of_machine) AS own_busy,
      sum(sign * unknown) FILTER (WHERE of_machine) AS unknown,
      sum(sign * ready) FILTER (WHERE of_machine) AS ready,
      sum(sign * p) FILTER (WHERE of_machine) AS p,
      sum(sign * e) FILTER (WHERE of_machine) AS e,
      sum(sign * smt) FILTER (WHERE of_machine) AS smt,
    FROM upto
    WHERE frame IS NOT NULL
    GROUP BY own, frame
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
