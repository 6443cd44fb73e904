-- CPU Usage (Precise), with WPA's column names: one row per switch-in. Times are seconds of this
-- recording, Ready and Waits microseconds, CPU usage milliseconds; what the recording does not
-- tell is null.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: begin of the window that the columns "in view" are of; null for the default one.
-- p_to_ns: end of that window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  entered AS (
    SELECT
      trace_id,
      ts,
      cpu,
      next_utid,
      prev_utid,
      prev_state,
      prev_wait_reason,
      prev_wait_mode,
      prev_priority,
      prev_cstate,
      next_priority,
    FROM context_switch
    JOIN span USING (trace_id)
    QUALIFY row_number() OVER (PARTITION BY trace_id, cpu, ts, next_utid ORDER BY seq) = 1
  ),
  gone AS (
    SELECT
      trace_id,
      ts,
      cpu,
      prev_utid,
      prev_state,
      prev_wait_reason,
      prev_wait_mode,
      prev_priority,
      prev_ideal_cpu,
    FROM context_switch
    JOIN span USING (trace_id)
    QUALIFY row_number() OVER (PARTITION BY trace_id, cpu, ts, prev_utid ORDER BY seq) = 1
  ),
  stay AS (
    SELECT
      s.trace_id,
      s.utid,
      s.cpu,
      s.ts,
      s.dur,
      s.priority,
      s.ready_ns,
      s.wait_ns,
      s.waker_utid,
      s.left_censored,
      s.right_censored,
      gone.prev_state AS out_state,
      gone.prev_wait_reason AS out_reason,
      gone.prev_wait_mode AS out_mode,
      gone.prev_priority AS out_priority,
      gone.prev_ideal_cpu AS ideal_cpu,
      lag(s.ts + s.dur) OVER turn AS last_out,
      lag(gone.prev_state) OVER turn AS last_state,
      lag(gone.prev_wait_reason) OVER turn AS last_reason,
      lag(gone.prev_wait_mode) OVER turn AS last_mode,
      lag(gone.prev_priority) OVER turn AS last_priority,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    LEFT JOIN gone
      ON gone.trace_id = s.trace_id AND gone.cpu = s.cpu AND gone.prev_utid = s.utid
      AND gone.ts = s.ts + s.dur AND NOT s.right_censored
    WHERE NOT s.is_idle
    WINDOW turn AS (
      PARTITION BY s.utid ORDER BY s.ts, s.dur, s.cpu, s.ready_ns, s.wait_ns, s.waker_utid
    )
  ),
  who AS (FROM thread_with_process(p_trace_id)),
  anyone AS (
    SELECT
      t.utid,
      t.tid,
      t.is_idle,
      p.pid,
      CASE WHEN t.is_idle THEN 'Idle' ELSE p.name END AS process,
    FROM thread AS t
    LEFT JOIN process AS p ON p.upid = t.upid
  )
SELECT
  -- Recording.
  stay.trace_id,
  -- Process of the thread that enters.
  who.process AS "New Process Name",
  -- The same with its id.
  who.process || ' (' || who.pid || ')' AS "New Process",
  -- Thread that enters.
  who.tid AS "New Thread Id",
  -- Its name.
  who.thread AS "Thread Name",
  -- Process of the thread that made it ready.
  waker.process AS "Readying Process Name",
  -- The same with its id.
  waker.process || ' (' || waker.pid || ')' AS "Readying Process",
  -- Thread that made it ready.
  waker.tid AS "Readying Thread Id",
  -- When it became ready, s. (time)
  (stay.ts - stay.ready_ns) / 1e9 AS "Ready Time (s)",
  -- One.
  1 AS "Count",
  -- From its last switch-out, microseconds. (no bounds)
  CASE WHEN NOT stay.left_censored THEN (stay.ts - stay.last_out) / 1e3 END
    AS "Time Since Last (µs)",
  -- From ready to switch-in, microseconds. (at least)
  stay.ready_ns / 1e3 AS "Ready (µs)",
  -- From the last switch-out to ready, microseconds. (at least)
  stay.wait_ns / 1e3 AS "Waits (µs)",
  -- One if it waited.
  CASE WHEN stay.wait_ns IS NOT NULL THEN (stay.wait_ns > 0)::INTEGER END AS "Count: Waits",
  -- Switch-in, s; null if it was not seen. (time)
  CASE WHEN NOT stay.left_censored THEN stay.ts / 1e9 END AS "Switch-In Time (s)",
  -- Its switch-out before, s. (time)
  stay.last_out / 1e9 AS "Last Switch-Out Time (s)",
  -- Its next switch-out, s; null if it was not seen. (time)
  CASE WHEN NOT stay.right_censored THEN (stay.ts + stay.dur) / 1e9 END
    AS "Next Switch-Out Time (s)",
  -- Its priority at the switch-out before.
  stay.last_priority AS "New Prev Out Pri",
  -- Its priority at switch-in.
  stay.priority AS "New In Pri",
  -- Its priority at the next switch-out.
  stay.out_priority AS "New Out Pri",
  -- Its state after the switch-out before, the number as recorded.
  stay.last_state AS "New Prev State",
  -- Its wait reason then.
  stay.last_reason AS "New Prev Wait Reason",
  -- Its wait mode then.
  stay.last_mode AS "New Prev Wait Mode",
  -- Its state after the next switch-out, the number as recorded.
  stay.out_state AS "New State",
  -- Its wait reason then.
  stay.out_reason AS "New Wait Reason",
  -- Its wait mode then.
  stay.out_mode AS "New Wait Mode",
  -- Process of the thread that leaves.
  old.process AS "Old Process Name",
  -- The same with its id.
  old.process || ' (' || old.pid || ')' AS "Old Process",
  -- Thread that leaves.
  old.tid AS "Old Thread Id",
  -- Its priority.
  entered.prev_priority AS "Old Out Pri",
  -- Its state, the number as recorded.
  entered.prev_state AS "Old State",
  -- Its wait reason.
  entered.prev_wait_reason AS "Old Wait Reason",
  -- Its wait mode.
  entered.prev_wait_mode AS "Old Wait Mode",
  -- Logical CPU.
  stay.cpu AS "CPU",
  -- Ideal processor of the thread that enters, as its next switch-out says.
  stay.ideal_cpu AS "Ideal Cpu",
  -- Idle state that the CPU left.
  entered.prev_cstate AS "Prev CState",
  -- Its stay in the window, ms. (at least)
  greatest(0, least(stay.ts + stay.dur, span.end_ns) - greatest(stay.ts, span.start_ns)) / 1e6
    AS "CPU Usage (in view) (ms)",
  -- The same as a share of the window times the logical CPUs, percent. (at least)
  100.0 * greatest(0, least(stay.ts + stay.dur, span.end_ns) - greatest(stay.ts, span.start_ns))
    / nullif(span.dur_ns * cpus.n, 0) AS "% CPU Usage",
FROM stay
JOIN span ON span.trace_id = stay.trace_id
JOIN who ON who.utid = stay.utid
LEFT JOIN (SELECT trace_id, count(DISTINCT cpu) AS n FROM cpu_state GROUP BY trace_id) AS cpus
  ON cpus.trace_id = stay.trace_id
LEFT JOIN entered
  ON entered.trace_id = stay.trace_id AND entered.cpu = stay.cpu AND entered.ts = stay.ts
  AND entered.next_utid = stay.utid AND NOT stay.left_censored
LEFT JOIN anyone AS old ON old.utid = entered.prev_utid
LEFT JOIN anyone AS waker ON waker.utid = stay.waker_utid
ORDER BY
  stay.trace_id, stay.ts, stay.cpu, stay.dur, stay.utid, stay.ready_ns, stay.wait_ns,
  stay.waker_utid;
