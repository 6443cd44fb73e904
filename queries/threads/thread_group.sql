-- The cgroup, container, pod, and systemd unit of each thread over time: intervals that cover all
-- time for each thread. A reading applies until the next one that differs; the first one applies
-- from the beginning. Where the first record is a move, the cgroup before it is not known. Threads
-- that were never read have one row with a reason.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
WITH
  reading AS (
    SELECT trace_id, utid, ts, cgroup, source = 'move' AS moved
    FROM thread_cgroup
    WHERE utid IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    UNION
    SELECT trace_id, utid, ts, cgroup, false
    FROM snapshot_thread
    WHERE utid IS NOT NULL AND cgroup IS NOT NULL
      AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  compared AS (
    SELECT *, lag(cgroup) OVER (PARTITION BY utid ORDER BY ts, cgroup) AS before,
    FROM reading
  ),
  changed AS (
    SELECT
      trace_id,
      utid,
      CASE WHEN before IS NULL AND NOT moved THEN -9223372036854775807 ELSE ts END AS from_ns,
      cgroup,
    FROM compared
    WHERE before IS DISTINCT FROM cgroup
  ),
  spell AS (
    SELECT
      trace_id,
      utid,
      from_ns,
      coalesce(lead(from_ns) OVER (PARTITION BY utid ORDER BY from_ns), 9223372036854775807)
        AS to_ns,
      cgroup,
      NULL AS reason,
    FROM changed
    UNION ALL
    SELECT
      trace_id,
      utid,
      -9223372036854775807,
      ts,
      NULL,
      'before the first record of its cgroup, which is a move',
    FROM compared
    WHERE before IS NULL AND moved
    UNION ALL
    SELECT
      t.trace_id,
      t.utid,
      -9223372036854775807,
      9223372036854775807,
      NULL,
      CASE
        WHEN trace.source = 'etw' THEN 'Windows has no cgroups'
        WHEN t.trace_id IN (SELECT trace_id FROM reading)
          THEN 'no reading of this thread: it lived shorter than the readings are apart'
        ELSE 'the recording has no readings of cgroups: record with collect'
      END,
    FROM thread AS t
    JOIN trace ON trace.trace_id = t.trace_id
    ANTI JOIN reading ON reading.utid = t.utid
    WHERE NOT t.is_idle AND (p_trace_id IS NULL OR t.trace_id = p_trace_id)
  ),
  part AS (
    SELECT
      *,
      regexp_extract(
        cgroup,
        '(?:(docker|libpod|cri-containerd|crio)-|/(docker|libpod)/'
        || '|/kubepods[^:]*/pod[0-9a-f_-]+/|:(cri-containerd|crio):)([0-9a-f]{64})(?:\.scope)?(?:/|$)',
        ['scope', 'folder', 'joined', 'id']
      ) AS container,
      regexp_extract(cgroup, '[/-]pod([0-9a-f]{8}[0-9a-f_-]{8,28})(?:\.slice|/|:|$)', 1) AS pod,
      regexp_extract(cgroup, '(?:^|/)(?:lxc\.payload\.|machine-)([^/]+?)(?:\.scope)?(?:/|$)', 1)
        AS machine,
      regexp_extract_all(cgroup, '[^/]+\.(?:service|scope)(?:/|$)') AS units,
    FROM spell
  )
SELECT
  -- Recording.
  trace_id,
  -- Thread, unique in the database.
  utid,
  -- When it starts to apply, ns; the smallest number: from the beginning. (time)
  from_ns::BIGINT AS from_ns,
  -- When it stops applying, ns; the largest number: to the end. (time)
  to_ns::BIGINT AS to_ns,
  -- Path of the cgroup; null if not recorded.
  cgroup,
  -- Container: the first 12 digits of its id, or the name of a system container or virtual machine;
  -- null: in none, or not recorded.
  coalesce(nullif(left(container.id, 12), ''), nullif(machine, '')) AS container,
  -- What runs it: docker, podman, containerd, cri-o, kubernetes, or machine; null without one.
  CASE
    WHEN coalesce(container.id, '') = '' THEN CASE WHEN machine <> '' THEN 'machine' END
    ELSE CASE container.scope || container.folder || container.joined
      WHEN 'docker' THEN 'docker'
      WHEN 'libpod' THEN 'podman'
      WHEN 'cri-containerd' THEN 'containerd'
      WHEN 'crio' THEN 'cri-o'
      ELSE 'kubernetes'
    END
  END AS runtime,
  -- Id of the Kubernetes pod; null: in none, or not recorded.
  nullif(replace(pod, '_', '-'), '') AS pod,
  -- Innermost systemd unit that is a service or a scope; null: in none, or not recorded.
  rtrim(units[-1], '/') AS service,
  -- Why the cgroup is null; null where it is known.
  reason,
FROM part
ORDER BY trace_id, utid, from_ns;
