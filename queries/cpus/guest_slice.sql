-- The schedule of guests within that of their host, in the time of the host: what ran on a CPU of a
-- guest, and what the host did with the thread that is this CPU. A slice ends where either of them
-- changes. Only for recordings of a host and its guest that were analyzed together; time in which
-- the guest's CPU was idle, or nothing of it is known, has no rows.
-- p_trace_id: only this host's recording; null for all.
-- p_from_ns: start of the window in the host's recording; null for all of it.
-- p_to_ns: end of the window; null for all of it.
WITH
  vcpu AS (
    FROM guest_vcpu
    WHERE p_trace_id IS NULL OR host_trace_id = p_trace_id
  ),
  -- What begins at each moment on each CPU of a guest, in the guest and in the host.
  guest_edge AS (
    SELECT
      vcpu.host_trace_id,
      vcpu.trace_id,
      vcpu.cpu,
      s.ts + vcpu.offset_ns AS at_ns,
      {'state': s.state, 'utid': s.utid} AS in_guest,
    FROM cpu_state AS s
    JOIN vcpu ON vcpu.trace_id = s.trace_id AND vcpu.cpu = s.cpu
    WHERE s.dur > 0
    UNION ALL
    SELECT
      vcpu.host_trace_id,
      vcpu.trace_id,
      vcpu.cpu,
      max(s.ts + s.dur) + vcpu.offset_ns,
      {'state': NULL, 'utid': NULL},
    FROM cpu_state AS s
    JOIN vcpu ON vcpu.trace_id = s.trace_id AND vcpu.cpu = s.cpu
    GROUP BY vcpu.host_trace_id, vcpu.trace_id, vcpu.cpu, vcpu.offset_ns
  ),
  host_edge AS (
    SELECT
      vcpu.host_trace_id,
      vcpu.trace_id,
      vcpu.cpu,
      s.ts AS at_ns,
      {'state': s.state, 'cpu': s.cpu} AS in_host,
    FROM thread_state AS s
    JOIN vcpu ON vcpu.host_utid = s.utid
    WHERE s.dur > 0
    UNION ALL
    SELECT
      vcpu.host_trace_id,
      vcpu.trace_id,
      vcpu.cpu,
      max(s.ts + s.dur),
      {'state': NULL, 'cpu': NULL},
    FROM thread_state AS s
    JOIN vcpu ON vcpu.host_utid = s.utid
    GROUP BY vcpu.host_trace_id, vcpu.trace_id, vcpu.cpu
  ),
  edge AS (
    SELECT
      host_trace_id,
      trace_id,
      cpu,
      at_ns,
      any_value(in_guest) AS in_guest,
      any_value(in_host) AS in_host,
    FROM (FROM guest_edge UNION ALL BY NAME FROM host_edge)
    GROUP BY host_trace_id, trace_id, cpu, at_ns
  ),
  part AS (
    SELECT
      host_trace_id,
      trace_id,
      cpu,
      at_ns,
      lead(at_ns) OVER ahead AS end_ns,
      arg_max(in_guest, at_ns) OVER so_far AS in_guest,
      arg_max(in_host, at_ns) OVER so_far AS in_host,
    FROM edge
    WINDOW
      ahead AS (PARTITION BY host_trace_id, trace_id, cpu ORDER BY at_ns),
      so_far AS (
        PARTITION BY host_trace_id, trace_id, cpu ORDER BY at_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      )
  )
SELECT
  -- Recording of the host.
  part.host_trace_id AS trace_id,
  -- Start in the host's recording, ns. (time)
  greatest(part.at_ns, coalesce(p_from_ns, part.at_ns))::BIGINT AS ts,
  -- Length, ns. (exact)
  overlap_ns(part.at_ns, part.end_ns, p_from_ns, p_to_ns)::BIGINT AS dur,
  -- Thread of the host that is the guest's CPU, unique in the database.
  vcpu.host_utid,
  -- Name of it.
  vcpu.host_thread,
  -- What the host did with it: running, ready (steal), waiting; null: not known.
  CASE WHEN part.in_host.state <> 'unknown' THEN part.in_host.state END AS host_state,
  -- Logical CPU of the host on which it ran; null if it did not run, or not known.
  CASE WHEN part.in_host.state = 'running' THEN part.in_host.cpu END AS host_cpu,
  -- Recording of the guest.
  part.trace_id AS guest_trace_id,
  -- Name of the guest.
  vcpu.guest,
  -- Logical CPU of the guest.
  part.cpu AS guest_cpu,
  -- Thread that ran there in the guest, unique in the database; null: an interrupt.
  part.in_guest.utid AS guest_utid,
  -- Thread id of it in the guest.
  thread.tid AS guest_tid,
  -- Name of it; interrupt: an interrupt of the guest.
  CASE WHEN part.in_guest.state = 'interrupt' THEN 'interrupt' ELSE thread.name END AS guest_thread,
  -- Name of its process; null: not known.
  process.name AS guest_process,
  -- Start in the guest's recording, ns. (time)
  (greatest(part.at_ns, coalesce(p_from_ns, part.at_ns)) - vcpu.offset_ns)::BIGINT AS guest_ts,
FROM part
JOIN vcpu
  ON vcpu.host_trace_id = part.host_trace_id AND vcpu.trace_id = part.trace_id
  AND vcpu.cpu = part.cpu
LEFT JOIN thread ON thread.utid = part.in_guest.utid
LEFT JOIN process ON process.upid = thread.upid
WHERE part.in_guest.state IN ('thread', 'interrupt')
  AND part.end_ns > coalesce(p_from_ns, part.at_ns)
  AND part.at_ns < coalesce(p_to_ns, part.end_ns)
ORDER BY part.host_trace_id, part.at_ns, part.trace_id, part.cpu;
