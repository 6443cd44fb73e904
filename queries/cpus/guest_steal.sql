-- What the host did with each CPU of a guest while it looked busy in the guest: ran it, let it wait
-- for a CPU (steal), or blocked it. Only for recordings of a host and its guest that were analyzed
-- together.
-- No rows without: guest_cpu.
-- p_trace_id: only guests whose recording is this one; null for all.
-- p_from_ns: start of the window in the guest's recording; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  vcpu AS (FROM guest_vcpu(p_trace_id)),
  -- Time of the host in each state before a row of its thread.
  host AS (
    SELECT
      utid,
      ts,
      dur,
      state,
      coalesce(sum(dur) FILTER (WHERE state = 'running') OVER earlier, 0) AS running_before,
      coalesce(sum(dur) FILTER (WHERE state = 'ready') OVER earlier, 0) AS ready_before,
      coalesce(sum(dur) FILTER (WHERE state = 'waiting') OVER earlier, 0) AS waiting_before,
    FROM thread_state
    WHERE utid IN (SELECT host_utid FROM vcpu) AND dur > 0
    WINDOW earlier AS (
      PARTITION BY utid ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
  ),
  busy AS (
    SELECT
      vcpu.trace_id,
      vcpu.cpu,
      vcpu.host_utid,
      greatest(s.ts, span.start_ns) + vcpu.offset_ns AS from_ns,
      least(s.ts + s.dur, span.end_ns) + vcpu.offset_ns AS to_ns,
    FROM cpu_state AS s
    JOIN span ON span.trace_id = s.trace_id
    JOIN vcpu ON vcpu.trace_id = s.trace_id AND vcpu.cpu = s.cpu
    WHERE s.state IN ('thread', 'interrupt') AND s.ts < span.end_ns
      AND s.ts + s.dur > span.start_ns
  ),
  edge AS (
    SELECT trace_id, cpu, host_utid, from_ns AS at_ns, -1 AS sign FROM busy
    UNION ALL
    SELECT trace_id, cpu, host_utid, to_ns, 1 FROM busy
  ),
  placed AS (
    SELECT edge.*, host.* EXCLUDE (utid), least(at_ns - ts, dur) AS so_far
    FROM edge
    ASOF LEFT JOIN host ON host.utid = edge.host_utid AND host.ts <= edge.at_ns
  ),
  -- The time up to the end of a busy period minus that up to its start is the time in it.
  spent AS (
    SELECT
      trace_id,
      cpu,
      sum(sign * at_ns)::BIGINT AS busy_ns,
      sum(sign * (running_before + CASE WHEN state = 'running' THEN so_far ELSE 0 END))::BIGINT
        AS running_ns,
      sum(sign * (ready_before + CASE WHEN state = 'ready' THEN so_far ELSE 0 END))::BIGINT
        AS ready_ns,
      sum(sign * (waiting_before + CASE WHEN state = 'waiting' THEN so_far ELSE 0 END))::BIGINT
        AS waiting_ns,
    FROM placed
    GROUP BY trace_id, cpu
  )
SELECT
  -- Recording of the guest.
  vcpu.trace_id,
  -- Name of the guest.
  vcpu.guest,
  -- Logical CPU of the guest.
  vcpu.cpu,
  -- Recording of the host.
  vcpu.host_trace_id,
  -- Thread of the host that runs it; null if none of its records names it.
  vcpu.host_utid,
  -- Name of the thread.
  vcpu.host_thread,
  -- Time in which the CPU looked busy in the guest, ns. (at least)
  coalesce(spent.busy_ns, 0) AS busy_ns,
  -- Of it: the host ran it, ns. (at least)
  coalesce(spent.running_ns, 0) AS host_running_ns,
  -- Of it: it was ready and waited for a CPU of the host, ns. (at least)
  coalesce(spent.ready_ns, 0) AS steal_ns,
  -- Of it: it was blocked in the host, as while a device is emulated, ns. (at least)
  coalesce(spent.waiting_ns, 0) AS host_blocked_ns,
  -- Of it: not known what the host did, ns. (no bounds)
  coalesce(spent.busy_ns, 0) - coalesce(spent.running_ns, 0) - coalesce(spent.ready_ns, 0)
    - coalesce(spent.waiting_ns, 0) AS host_unknown_ns,
  -- steal_ns as a share of busy_ns, percent; null without busy time. (no bounds)
  100.0 * coalesce(spent.ready_ns, 0) / nullif(spent.busy_ns, 0) AS steal_pct,
FROM vcpu
LEFT JOIN spent ON spent.trace_id = vcpu.trace_id AND spent.cpu = vcpu.cpu
ORDER BY vcpu.trace_id, vcpu.cpu, vcpu.host_trace_id;
