-- The groups within which Linux shares the CPUs: cgroups with a CPU controller and, where autogroups
-- are on, sessions of processes in the root cgroup. Groups share among themselves by weight first,
-- then the threads and groups in each of them. A thread without a row is in none, and shares with
-- the outermost groups.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
WITH RECURSIVE
  setting AS (
    SELECT trace_id, key, value
    FROM machine_setting
    WHERE key IN ('autogroup', 'autogroups', 'command_pid', 'cpu_shares')
      AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  -- The settings that are objects, by name.
  named AS (
    SELECT trace_id, key, entry.key AS name, entry.value AS value
    FROM (
      SELECT
        trace_id,
        key,
        unnest(map_entries(TRY_CAST(TRY_CAST(value AS JSON) AS MAP(VARCHAR, VARCHAR)))) AS entry,
      FROM setting
      WHERE key IN ('autogroups', 'cpu_shares')
    )
    WHERE CASE key WHEN 'cpu_shares' THEN TRY_CAST(entry.value AS BIGINT) > 1
      ELSE regexp_matches(entry.value, '^/autogroup-[0-9]+ nice -?[0-9]+$') END
  ),
  -- The last cgroup of each thread, as the names on its path.
  member AS (
    SELECT
      trace_id,
      utid,
      list_filter(string_split(arg_max(cgroup, ts), '/'), lambda part: part <> '') AS parts,
    FROM thread_cgroup
    WHERE utid IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    GROUP BY trace_id, utid
  ),
  step AS (
    SELECT trace_id, parts, depth, '/' || array_to_string(parts[:depth], '/') AS cgroup
    FROM (SELECT trace_id, parts, unnest(range(1, len(parts) + 1)) AS depth
      FROM (SELECT DISTINCT trace_id, parts FROM member))
  ),
  -- Where shares were read, a cgroup that was read without any has no CPU controller: its threads
  -- share with those around it.
  cgroups AS (
    SELECT
      step.trace_id,
      step.parts,
      list(step.cgroup ORDER BY depth) AS path,
      list(coalesce(shares.value::BIGINT, 1024)::DOUBLE ORDER BY depth) AS weights,
    FROM step
    LEFT JOIN named AS shares
      ON shares.trace_id = step.trace_id AND shares.key = 'cpu_shares'
      AND shares.name = step.cgroup
    WHERE shares.name IS NOT NULL
      OR (step.trace_id, step.cgroup) NOT IN (SELECT (trace_id, cgroup) FROM snapshot_cgroup)
      OR step.trace_id NOT IN (SELECT trace_id FROM setting WHERE key = 'cpu_shares')
    GROUP BY step.trace_id, step.parts
  ),
  -- The last process with each id, and its parent.
  family AS (
    SELECT process.trace_id, pid, arg_max(parent_pid, upid) AS parent_pid
    FROM process
    SEMI JOIN (FROM setting WHERE key = 'autogroup' AND value = '1') AS enabled
      ON enabled.trace_id = process.trace_id
    GROUP BY process.trace_id, pid
  ),
  -- Each process and its ancestors, up to one whose session is known. A process that ended before
  -- its session was read is in that of its parent; the command that `collect` started has one of
  -- its own. Threads of the kernel, whose parent is process 2, have none.
  ancestor AS (
    SELECT
      family.*,
      pid AS origin,
      0 AS hops,
      read.value AS session,
      read.value IS NOT NULL OR coalesce(parent_pid, 0) IN (0, 1)
        OR coalesce(pid = TRY_CAST(command.value AS BIGINT), false) AS is_last,
    FROM family
    LEFT JOIN named AS read
      ON read.trace_id = family.trace_id AND read.key = 'autogroups' AND read.name = pid::VARCHAR
    LEFT JOIN setting AS command
      ON command.trace_id = family.trace_id AND command.key = 'command_pid'
    WHERE pid <> 2 AND parent_pid IS DISTINCT FROM 2
    UNION ALL
    SELECT
      a.trace_id,
      a.parent_pid,
      f.parent_pid,
      a.origin,
      a.hops + 1,
      read.value,
      read.value IS NOT NULL OR coalesce(f.parent_pid, 0) IN (0, 1)
        OR coalesce(a.parent_pid = TRY_CAST(command.value AS BIGINT), false),
    FROM ancestor AS a
    LEFT JOIN family AS f ON f.trace_id = a.trace_id AND f.pid = a.parent_pid
    LEFT JOIN named AS read
      ON read.trace_id = a.trace_id AND read.key = 'autogroups'
      AND read.name = a.parent_pid::VARCHAR
    LEFT JOIN setting AS command
      ON command.trace_id = a.trace_id AND command.key = 'command_pid'
    -- A damaged list of processes may be a circle.
    WHERE NOT a.is_last AND a.hops < 64 AND a.parent_pid <> 2
  ),
  session AS (
    SELECT
      trace_id,
      origin AS pid,
      coalesce(regexp_extract(session, '^/autogroup-[0-9]+'), 'session of ' || pid) AS name,
      coalesce(TRY_CAST(regexp_extract(session, '-?[0-9]+$') AS INTEGER), 0) AS nice,
    FROM ancestor
    WHERE is_last OR hops = 64
  ),
  -- The nice value of a session is the one that was read with its last process.
  autogroups AS (
    SELECT
      trace_id,
      process.upid,
      session.name,
      arg_max(nice, process.upid) OVER (PARTITION BY trace_id, session.name) AS nice,
    FROM session
    JOIN process USING (trace_id, pid)
  )
SELECT
  -- Recording.
  thread.trace_id,
  -- Thread, unique in the database.
  thread.utid,
  -- The groups that it is in, from the outermost: paths of cgroups, or a session as
  -- /proc/PID/autogroup names it.
  coalesce(cgroups.path, [autogroups.name]) AS path,
  -- The weight of each of them among the groups and threads around it; 1024 where none was read.
  coalesce(cgroups.weights, [nice_weight(autogroups.nice)::DOUBLE]) AS weights,
FROM thread
LEFT JOIN member ON member.utid = thread.utid
LEFT JOIN cgroups ON cgroups.trace_id = thread.trace_id AND cgroups.parts = member.parts
LEFT JOIN autogroups ON autogroups.upid = thread.upid
WHERE NOT thread.is_idle AND coalesce(cgroups.path[1], autogroups.name) IS NOT NULL
ORDER BY thread.trace_id, thread.utid;
