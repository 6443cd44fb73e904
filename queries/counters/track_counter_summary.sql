-- The counters that a recording contains over time (track_counter), such as memory in use: how often
-- each was read in the window and which values it had. Idle states, frequencies and counters that
-- are read at switches have questions of their own.
-- No rows without: track_counter.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only counters of processes of this name, or of a group such as service:nginx
-- (group_thread), and of their threads; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  named AS (
    SELECT
      c.trace_id,
      c.name,
      c.unit,
      c.cpu,
      coalesce(c.upid, t.upid) AS upid,
      c.utid,
      c.ts,
      c.value,
    FROM track_counter AS c
    JOIN span ON span.trace_id = c.trace_id
    LEFT JOIN thread AS t ON t.utid = c.utid
    WHERE c.ts >= span.start_ns AND c.ts < span.end_ns
  )
SELECT
  -- Recording.
  n.trace_id,
  -- Name of the counter.
  n.name,
  -- Unit of its values; null if not recorded.
  any_value(n.unit) AS unit,
  -- Logical CPU that it is about; null: none.
  n.cpu,
  -- Process that it is about, also by its thread; null: none.
  any_value(p.name) AS process,
  -- The same, unique in the database.
  n.upid,
  -- Thread that it is about; null: none.
  n.utid,
  -- Values in the window.
  count(*) AS readings,
  -- First value. (no bounds)
  arg_min(n.value, n.ts) AS first_value,
  -- Smallest value. (no bounds)
  min(n.value) AS least,
  -- Mean over the readings. (no bounds)
  avg(n.value) AS mean,
  -- Largest value. (no bounds)
  max(n.value) AS most,
  -- Last value. (no bounds)
  arg_max(n.value, n.ts) AS last_value,
FROM named AS n
LEFT JOIN process AS p ON p.upid = n.upid
WHERE p_process IS NULL
  OR n.utid IN (SELECT utid FROM who)
  OR (n.utid IS NULL AND n.upid IN (SELECT upid FROM who))
GROUP BY n.trace_id, n.name, n.cpu, n.upid, n.utid
ORDER BY n.trace_id, n.name, n.cpu, n.upid, n.utid;
