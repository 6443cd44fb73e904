-- The threads of two recordings side by side, in milliseconds: running, ready and waiting time,
-- counts and maxima, core types, cycles per instruction, and priorities. Any two recordings can be
-- named; without names, the recordings of the same thing are compared (recording_pair). Threads of
-- equal process and name are one row; both counts are given. Compare the lengths of the windows
-- first: sums grow with them.
-- No rows about one recording.
-- p_trace_id: only this recording as the second; null for all.
-- p_from_ns: start of the window of both; null for the default ones.
-- p_to_ns: end of the window of both; null for the default ones.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_first: name of the first recording (trace.label); null: the pairs of recording_pair.
-- p_second: name of the second recording; null: the pairs of recording_pair.
WITH
  pair AS (
    SELECT a.trace_id AS first_trace_id, b.trace_id AS second_trace_id
    FROM trace AS a
    JOIN trace AS b ON b.trace_id <> a.trace_id
    WHERE a.label = p_first AND b.label = p_second
      AND (p_trace_id IS NULL OR b.trace_id = p_trace_id)
    UNION
    SELECT first_trace_id, second_trace_id
    FROM recording_pair(p_trace_id)
    WHERE p_first IS NULL OR p_second IS NULL
  ),
  side AS (
    SELECT first_trace_id AS trace_id FROM pair UNION SELECT second_trace_id FROM pair
  ),
  summary AS (
    SELECT s.* REPLACE (coalesce(s.process, '?') AS process)
    FROM thread_summary(p_from_ns := p_from_ns, p_to_ns := p_to_ns, p_process := p_process) AS s
    SEMI JOIN side USING (trace_id)
  ),
  place AS (
    SELECT
      utid,
      sum(run_ns) FILTER (WHERE core_type IN ('E', 'LP-E')) AS e_ns,
      sum(run_ns) FILTER (WHERE core_type IS NOT NULL) AS typed_ns,
    FROM core_type_residency(p_from_ns := p_from_ns, p_to_ns := p_to_ns, p_process := p_process)
    GROUP BY utid
  ),
  counted AS (
    SELECT
      utid,
      sum(cycles) FILTER (WHERE core_type IN ('P', 'U')) AS p_cycles,
      sum(instructions) FILTER (WHERE core_type IN ('P', 'U')) AS p_instructions,
      sum(cycles) FILTER (WHERE core_type IN ('E', 'LP-E')) AS e_cycles,
      sum(instructions) FILTER (WHERE core_type IN ('E', 'LP-E')) AS e_instructions,
    FROM thread_cpi(p_from_ns := p_from_ns, p_to_ns := p_to_ns, p_process := p_process)
    GROUP BY utid
  ),
  by_name AS (
    SELECT
      s.trace_id,
      s.process,
      s.thread,
      count(*) AS threads,
      sum(s.run_ns) / 1e6 AS run_ms,
      sum(s.ready_ns) / 1e6 AS ready_ms,
      100.0 * sum(s.ready_ns) / nullif(sum(s.run_ns) + sum(s.ready_ns), 0) AS ready_pct,
      max(s.ready_max_ns) / 1e6 AS ready_max_ms,
      sum(s.wait_ns) / 1e6 AS wait_ms,
      max(s.wait_max_ns) / 1e6 AS wait_max_ms,
      sum(s.waits)::BIGINT AS waits,
      sum(s.switches_in)::BIGINT AS switches,
      100.0 * coalesce(sum(place.e_ns), 0) / nullif(sum(place.typed_ns), 0) AS e_pct,
      sum(c.p_cycles) / nullif(sum(c.p_instructions), 0) AS cpi_p,
      sum(c.e_cycles) / nullif(sum(c.e_instructions), 0) AS cpi_e,
    FROM summary AS s
    LEFT JOIN place ON place.utid = s.utid
    LEFT JOIN counted AS c ON c.utid = s.utid
    GROUP BY s.trace_id, s.process, s.thread
  ),
  at_priority AS (
    SELECT
      t.trace_id,
      coalesce(t.process, '?') AS process,
      t.thread,
      t.priority,
      sum(t.run_ns) AS run_ns,
      100.0 * sum(t.run_ns)
        / nullif(sum(sum(t.run_ns)) OVER (PARTITION BY t.trace_id, t.process, t.thread), 0) AS pct,
    FROM thread_priority(p_from_ns := p_from_ns, p_to_ns := p_to_ns, p_process := p_process) AS t
    SEMI JOIN side USING (trace_id)
    GROUP BY t.trace_id, t.process, t.thread, t.priority
  ),
  priorities AS (
    SELECT
      trace_id,
      process,
      thread,
      string_agg(
        priority || ' (' || round(pct)::INTEGER || ' %)', ', ' ORDER BY run_ns DESC, priority
      ) FILTER (WHERE pct >= 0.5) AS shares,
    FROM at_priority
    WHERE priority IS NOT NULL
    GROUP BY trace_id, process, thread
  ),
  named AS (
    SELECT n.*, p.shares
    FROM by_name AS n
    LEFT JOIN priorities AS p
      ON p.trace_id = n.trace_id AND p.process = n.process
      AND p.thread IS NOT DISTINCT FROM n.thread
  ),
  -- A thread that only one of them has is a row too.
  either AS (
    SELECT pair.*, n.process, n.thread FROM pair JOIN named AS n ON n.trace_id = first_trace_id
    UNION
    SELECT pair.*, n.process, n.thread FROM pair JOIN named AS n ON n.trace_id = second_trace_id
  )
SELECT
  -- First recording.
  e.first_trace_id,
  -- Its name.
  first_of.label AS first,
  -- Second recording.
  e.second_trace_id,
  -- Its name.
  second_of.label AS second,
  -- Name of the process; ? if not recorded.
  e.process,
  -- Name of the threads; null if not recorded.
  e.thread,
  -- Threads of this name in the first; null if it has none, as in all columns of a side.
  a.threads AS first_threads,
  -- In the second.
  b.threads AS second_threads,
  -- Running time in the first, ms. (at least)
  a.run_ms AS first_run_ms,
  -- In the second. (at least)
  b.run_ms AS second_run_ms,
  -- Ready time in the first, ms. (at least)
  a.ready_ms AS first_ready_ms,
  -- In the second. (at least)
  b.ready_ms AS second_ready_ms,
  -- Ready time as a share of running and ready time in the first, percent. (no bounds)
  a.ready_pct AS first_ready_pct,
  -- In the second. (no bounds)
  b.ready_pct AS second_ready_pct,
  -- Longest known ready time before a switch-in in the first, ms. (at least)
  a.ready_max_ms AS first_ready_max_ms,
  -- In the second. (at least)
  b.ready_max_ms AS second_ready_max_ms,
  -- Waiting (blocked) time in the first, ms; null without recorded wakeups. (at least)
  a.wait_ms AS first_wait_ms,
  -- In the second. (at least)
  b.wait_ms AS second_wait_ms,
  -- Longest wait before a switch-in in the first, ms. (at least)
  a.wait_max_ms AS first_wait_max_ms,
  -- In the second. (at least)
  b.wait_max_ms AS second_wait_max_ms,
  -- Switch-ins after a wait in the first.
  a.waits AS first_waits,
  -- In the second.
  b.waits AS second_waits,
  -- Switch-ins in the first. (at least)
  a.switches AS first_switches,
  -- In the second. (at least)
  b.switches AS second_switches,
  -- Share of the running time on E or LP-E cores in the first, percent. (no bounds)
  a.e_pct AS first_e_pct,
  -- In the second. (no bounds)
  b.e_pct AS second_e_pct,
  -- Cycles per instruction (CPI) on P cores, or cores of a uniform machine, in the first; null
  -- without counters.
  a.cpi_p AS first_cpi_p,
  -- In the second.
  b.cpi_p AS second_cpi_p,
  -- CPI on E and LP-E cores in the first; null if not measured there.
  a.cpi_e AS first_cpi_e,
  -- In the second.
  b.cpi_e AS second_cpi_e,
  -- second_cpi_p / first_cpi_p: below 1, fewer cycles per instruction in the second.
  b.cpi_p / nullif(a.cpi_p, 0) AS cpi_p_ratio,
  -- second_cpi_e / second_cpi_p: what an E core costs in the second, in cycles.
  b.cpi_e / nullif(b.cpi_p, 0) AS second_cpi_e_to_p,
  -- Priorities in the first with their share of the running time, the longest first; shares below
  -- 0.5 % are left out. (no bounds)
  a.shares AS first_priorities,
  -- In the second. (no bounds)
  b.shares AS second_priorities,
FROM either AS e
JOIN trace AS first_of ON first_of.trace_id = e.first_trace_id
JOIN trace AS second_of ON second_of.trace_id = e.second_trace_id
LEFT JOIN named AS a
  ON a.trace_id = e.first_trace_id AND a.process = e.process
  AND a.thread IS NOT DISTINCT FROM e.thread
LEFT JOIN named AS b
  ON b.trace_id = e.second_trace_id AND b.process = e.process
  AND b.thread IS NOT DISTINCT FROM e.thread
ORDER BY
  e.first_trace_id,
  e.second_trace_id,
  coalesce(a.run_ms, 0) + coalesce(b.run_ms, 0) DESC,
  e.process,
  e.thread;
