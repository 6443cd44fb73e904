-- Each frame that starts in the window: its length, what limited it, and whether it stuttered. A
-- stutter is a frame at least p_stutter times and 4 ms longer than usual. Usual is the median of
-- the 31 frames around it or the median of all frames of the recording, whichever is shorter.
-- No rows without: frame.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name, or with a thread in this group; null for all.
-- p_stutter [1.5]: how many times the usual length makes a stutter.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  -- A process without a recorded name is named by its id, so that p_process can select it.
  named AS (
    SELECT
      f.* REPLACE (coalesce(f.process, p.name, 'pid ' || p.pid, 'unknown process') AS process),
    FROM frame AS f
    LEFT JOIN process AS p ON p.upid = f.upid
    WHERE p_trace_id IS NULL OR f.trace_id = p_trace_id
  ),
  around AS (
    SELECT
      f.*,
      median(f.dur_ns) OVER (PARTITION BY f.trace_id, f.upid, f.process) AS all_ns,
      median(f.dur_ns) OVER (
        PARTITION BY f.trace_id, f.upid, f.process
        ORDER BY f.start_ns, f.frame
        ROWS BETWEEN 15 PRECEDING AND 15 FOLLOWING
      ) AS near_ns,
    FROM named AS f
    WHERE p_process IS NULL
      OR f.process = p_process
      OR f.upid IN (
        SELECT thread.upid FROM group_thread(p_trace_id, p_process) JOIN thread USING (utid)
      )
  ),
  compared AS (SELECT *, least(near_ns, all_ns) AS usual_ns FROM around)
SELECT
  -- Recording.
  a.trace_id,
  -- Name of the presenting process; pid and its number if no name was recorded.
  a.process,
  -- Process, unique in the database.
  a.upid,
  -- Number of the frame in its process.
  a.frame,
  -- Start, ns. (time)
  a.start_ns,
  -- Length, ns; null for the last one. (no bounds)
  a.dur_ns,
  -- Usual length, ns. (no bounds)
  usual_ns::BIGINT AS usual_ns,
  -- True if it is a stutter; null without a length.
  a.dur_ns >= p_stutter * usual_ns AND a.dur_ns >= usual_ns + 4000000 AS stutter,
  -- Time beyond the usual length, ns; 0 if it did not stutter. (no bounds)
  CASE
    WHEN a.dur_ns >= p_stutter * usual_ns AND a.dur_ns >= usual_ns + 4000000
      THEN (a.dur_ns - usual_ns)::BIGINT
    WHEN a.dur_ns IS NOT NULL THEN 0
  END AS over_ns,
  -- CPU time spent on it, as the source defines it, ns. (no bounds)
  a.cpu_busy_ns,
  -- Time the GPU worked on it, ns. (no bounds)
  a.gpu_busy_ns,
  -- gpu: the GPU was busy for 90 % of it or more; cpu: the CPU was, and not the GPU; limited:
  -- neither was (a frame limit, vsync, waiting); null if the source does not report it.
  CASE
    WHEN a.gpu_busy_ns >= 0.9 * a.dur_ns THEN 'gpu'
    WHEN a.gpu_busy_ns IS NULL THEN NULL
    WHEN a.cpu_busy_ns >= 0.9 * a.dur_ns THEN 'cpu'
    WHEN a.cpu_busy_ns IS NOT NULL THEN 'limited'
  END AS bound_by,
  -- From its start to the screen, ns; null if never shown or not recorded. (no bounds)
  (a.displayed_ns - a.start_ns)::BIGINT AS latency_ns,
  -- From the call of Present, which ends the CPU time, to the screen, ns: PresentMon's
  -- msUntilDisplayed; null if never shown or not recorded. (no bounds)
  (a.displayed_ns - a.start_ns - a.cpu_busy_ns)::BIGINT AS until_displayed_ns,
  -- True if it was never shown.
  a.dropped,
  -- Presenting thread, unique in the database; null if not recorded.
  a.utid,
  -- Source of the frames.
  a.dialect,
  -- Uncertainty of the clock alignment, ns. (exact)
  a.clock_residual_ns,
FROM compared AS a
JOIN span ON span.trace_id = a.trace_id
WHERE a.start_ns >= span.start_ns AND a.start_ns < span.end_ns
ORDER BY a.trace_id, a.process, a.upid, a.start_ns, a.frame;
