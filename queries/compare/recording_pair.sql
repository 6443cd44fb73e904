-- Recordings of the same thing, in pairs: before and after a change, or two versions. Recordings are
-- paired if they are of the same machine and their names differ only in a last word (`game` and
-- `game-fixed`, `before` and `after`, `build-1` and `build-2`), if they are of two machines and the
-- last word is `symmetric` (`game-symmetric` and `game` or `game-hybrid`), if they are the same
-- workload with frames in two placements, or if the database contains just these two and the same
-- program ran longest in both. Other recordings are not compared: they show different things. Steps
-- of a parameter sweep are compared by scaling_curve.
-- No rows about one recording.
-- p_trace_id: only this recording as the second; null for all.
WITH
  named AS (
    SELECT
      t.trace_id,
      t.label,
      coalesce(t.host, '') || '/' || coalesce(t.cpu_model, '') AS machine,
      -- Without the extensions of a file.
      regexp_replace(lower(t.label), '(\.perf)?\.(data|etl|dat|zst|gz)$', '') AS name,
    FROM trace AS t
    ANTI JOIN run AS r ON r.trace_id = t.trace_id AND r.workload IS NOT NULL
  ),
  versioned AS (
    SELECT
      *,
      regexp_replace(
        name,
        '(^|[-_. ])(before|after|fixed|fix|broken|fault|old|new|base|baseline|patched|original'
          || '|control|candidate|reference|with|without|on|off|a|b|v?[0-9][0-9.]*)$',
        ''
      ) AS stem,
    FROM named
  ),
  ranked AS (
    SELECT
      *,
      count(*) OVER alike AS versions,
      row_number() OVER (
        PARTITION BY machine, stem
        ORDER BY
          regexp_matches(name, '(^|[-_. ])(after|fixed|fix|new|patched|candidate|without|off)$'),
          trace_id
      ) AS place,
    FROM versioned
    WINDOW alike AS (PARTITION BY machine, stem)
  ),
  by_name AS (
    SELECT a.trace_id AS first_trace_id, b.trace_id AS second_trace_id, 'name' AS basis,
    FROM ranked AS a
    JOIN ranked AS b ON b.machine = a.machine AND b.stem = a.stem AND b.place > 1
    WHERE a.place = 1
  ),
  by_machine AS (
    SELECT a.trace_id AS first_trace_id, b.trace_id AS second_trace_id, 'machine' AS basis,
    FROM named AS a
    JOIN named AS b
      ON b.machine <> a.machine
      AND regexp_replace(b.name, '[-_. ]hybrid$', '')
        = regexp_replace(a.name, '[-_. ]symmetric$', '')
    WHERE regexp_matches(a.name, '[-_. ]symmetric$')
  ),
  game AS (
    SELECT r.trace_id, r.workload, r.variant, r.threads, r.placement, r.repeat,
    FROM run AS r
    SEMI JOIN frame AS f ON f.trace_id = r.trace_id
    WHERE r.workload IS NOT NULL
  ),
  by_placement AS (
    SELECT a.trace_id AS first_trace_id, b.trace_id AS second_trace_id, 'placement' AS basis,
    FROM game AS a
    JOIN game AS b
      ON b.workload = a.workload
      AND b.variant IS NOT DISTINCT FROM a.variant
      AND b.threads = a.threads
      AND b.repeat IS NOT DISTINCT FROM a.repeat
      AND b.placement <> a.placement
    WHERE a.trace_id < b.trace_id
  ),
  process_time AS (
    SELECT s.trace_id, p.process, sum(s.dur) AS run_ns,
    FROM sched_slice AS s
    JOIN thread_with_process AS p ON p.utid = s.utid
    WHERE NOT s.is_idle AND p.process IS NOT NULL
    GROUP BY s.trace_id, p.process
  ),
  longest AS (
    SELECT trace_id, arg_max(process, (run_ns, process)) AS process FROM process_time
    GROUP BY trace_id
  ),
  of_two AS (
    SELECT min(trace_id) AS first_trace_id, max(trace_id) AS second_trace_id, 'program' AS basis,
    FROM named
    JOIN longest USING (trace_id)
    HAVING count(*) = 2 AND count(DISTINCT process) = 1 AND count(DISTINCT machine) = 1
      AND (SELECT count(*) FROM trace) = 2
  ),
  every AS (
    FROM by_name
    UNION ALL
    FROM by_machine
    UNION ALL
    FROM by_placement
    UNION ALL
    SELECT * FROM of_two ANTI JOIN by_name USING (first_trace_id, second_trace_id)
  )
SELECT
  -- Recording before the change, or the first.
  e.first_trace_id,
  -- Its name.
  a.label AS first,
  -- Recording after the change, or the second.
  e.second_trace_id,
  -- Its name.
  b.label AS second,
  -- Why they are compared: name, machine, placement, or program.
  e.basis,
FROM every AS e
JOIN trace AS a ON a.trace_id = e.first_trace_id
JOIN trace AS b ON b.trace_id = e.second_trace_id
WHERE p_trace_id IS NULL OR e.second_trace_id = p_trace_id
ORDER BY e.first_trace_id, e.second_trace_id;
