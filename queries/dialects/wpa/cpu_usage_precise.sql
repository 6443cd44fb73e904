-- CPU Usage (Precise) with WPA's column names: one row per switch-in. Times are in seconds of this
-- recording, Ready and Waits in microseconds, CPU usage in milliseconds. What the recording does
-- not contain is null. As in WPA, Ready is the time from the ready record to the switch-in, also if
-- Windows wrote that record just before the thread's switch-out (Waits is then 0).
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window of the columns "in view"; null for the default one.
-- p_to_ns: end of that window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  switch_in AS (
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
      prev_remaining_quantum,
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
  slice AS (
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
      lag(s.ts) OVER turn AS last_in,
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
  ready_record AS (
    SELECT w.trace_id, w.utid, w.ts
    FROM wakeup AS w
    JOIN span ON span.trace_id = w.trace_id
    WHERE w.kind = 'ready'
  ),
  -- The ready period of a slice begins at its switch-out at the earliest. Windows may write the
  -- ready record about a microsecond before that, and WPA counts from the record.
  timed AS (
    SELECT
      slice.*,
      CASE
        WHEN slice.wait_ns IS NOT NULL AND slice.ts - slice.ready_ns = slice.last_out
          AND r.ts > slice.last_in AND r.ts < slice.last_out
        THEN r.ts
        ELSE slice.ts - slice.ready_ns
      END AS ready_ts,
    FROM slice
    ASOF LEFT JOIN ready_record AS r
      ON r.trace_id = slice.trace_id AND r.utid = slice.utid AND r.ts <= slice.ts
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
  slice.trace_id,
  -- Process of the thread that switches in.
  who.process AS "New Process Name",
  -- Process name with its id.
  who.process || ' (' || who.pid || ')' AS "New Process",
  -- Thread that switches in.
  who.tid AS "New Thread Id",
  -- Its name.
  who.thread AS "Thread Name",
  -- Process of the thread that made it ready.
  waker.process AS "Readying Process Name",
  -- Process name with its id.
  waker.process || ' (' || waker.pid || ')' AS "Readying Process",
  -- Thread that made it ready.
  waker.tid AS "Readying Thread Id",
  -- When it became ready, s. (time)
  slice.ready_ts / 1e9 AS "Ready Time (s)",
  -- Always 1.
  1 AS "Count",
  -- From its last switch-out to this switch-in, microseconds. (no bounds)
  CASE WHEN NOT slice.left_censored THEN (slice.ts - slice.last_out) / 1e3 END
    AS "Time Since Last (µs)",
  -- From ready to switch-in, microseconds. (at least)
  (slice.ts - slice.ready_ts) / 1e3 AS "Ready (µs)",
  -- From the last switch-out to ready, microseconds. (at least)
  slice.wait_ns / 1e3 AS "Waits (µs)",
  -- 1 if it waited before this switch-in, else 0; null if unknown.
  CASE WHEN slice.wait_ns IS NOT NULL THEN (slice.wait_ns > 0)::INTEGER END AS "Count: Waits",
  -- Switch-in, s; null if it was not seen. (time)
  CASE WHEN NOT slice.left_censored THEN slice.ts / 1e9 END AS "Switch-In Time (s)",
  -- Its previous switch-out, s. (time)
  slice.last_out / 1e9 AS "Last Switch-Out Time (s)",
  -- Its next switch-out, s; null if it was not seen. (time)
  CASE WHEN NOT slice.right_censored THEN (slice.ts + slice.dur) / 1e9 END
    AS "Next Switch-Out Time (s)",
  -- Its priority at the previous switch-out.
  slice.last_priority AS "New Prev Out Pri",
  -- Its priority at switch-in.
  slice.priority AS "New In Pri",
  -- Its priority at the next switch-out.
  slice.out_priority AS "New Out Pri",
  -- Its state after the previous switch-out, the number as recorded.
  slice.last_state AS "New Prev State",
  -- Its wait reason then.
  slice.last_reason AS "New Prev Wait Reason",
  -- Its wait mode then.
  slice.last_mode AS "New Prev Wait Mode",
  -- Its state after the next switch-out, the number as recorded.
  slice.out_state AS "New State",
  -- Its wait reason then.
  slice.out_reason AS "New Wait Reason",
  -- Its wait mode then.
  slice.out_mode AS "New Wait Mode",
  -- Process of the thread that switches out.
  old.process AS "Old Process Name",
  -- Process name with its id.
  old.process || ' (' || old.pid || ')' AS "Old Process",
  -- Thread that switches out.
  old.tid AS "Old Thread Id",
  -- Its priority.
  switch_in.prev_priority AS "Old Out Pri",
  -- Its remaining quantum, the number as recorded.
  switch_in.prev_remaining_quantum AS "OldRemQnt",
  -- Its state, the number as recorded.
  switch_in.prev_state AS "Old State",
  -- Its wait reason.
  switch_in.prev_wait_reason AS "Old Wait Reason",
  -- Its wait mode.
  switch_in.prev_wait_mode AS "Old Wait Mode",
  -- Logical CPU.
  slice.cpu AS "CPU",
  -- Ideal processor of the thread that switches in, as recorded at its next switch-out.
  slice.ideal_cpu AS "Ideal Cpu",
  -- Idle state that the CPU was in before.
  switch_in.prev_cstate AS "Prev CState",
  -- Length of this slice within the window, ms. (at least)
  greatest(0, clipped_ns(slice.ts, slice.dur, span.start_ns, span.end_ns)) / 1e6
    AS "CPU Usage (in view) (ms)",
  -- This slice as a share of the window times the logical CPUs, percent. (at least)
  100.0 * greatest(0, clipped_ns(slice.ts, slice.dur, span.start_ns, span.end_ns))
    / nullif(span.dur_ns * cpus.n, 0) AS "% CPU Usage",
FROM timed AS slice
JOIN span ON span.trace_id = slice.trace_id
JOIN who ON who.utid = slice.utid
LEFT JOIN (SELECT trace_id, count(DISTINCT cpu) AS n FROM cpu_state GROUP BY trace_id) AS cpus
  ON cpus.trace_id = slice.trace_id
LEFT JOIN switch_in
  ON switch_in.trace_id = slice.trace_id AND switch_in.cpu = slice.cpu AND switch_in.ts = slice.ts
  AND switch_in.next_utid = slice.utid AND NOT slice.left_censored
LEFT JOIN anyone AS old ON old.utid = switch_in.prev_utid
LEFT JOIN anyone AS waker ON waker.utid = slice.waker_utid
ORDER BY
  slice.trace_id, slice.ts, slice.cpu, slice.dur, slice.utid, slice.ready_ns, slice.wait_ns,
  slice.waker_utid, slice.last_in, slice.last_out;
