-- The 20 longest single waits of ready threads for a CPU, in each recording: why the thread was not
-- running, and which thread ran instead on the CPU that it then switched in on. Clipped to the
-- window.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- p_min_idle_ns [100000]: shortest idle interval that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  named AS (FROM thread_with_process(p_trace_id, NULL)),
  -- The pieces of a period in ready_slice add up to its state.
  period AS NOT MATERIALIZED (
    SELECT
      t.trace_id,
      t.utid,
      t.ts AS ready_ts,
      t.dur AS whole_ns,
      clipped_ns(t.ts, t.dur, start_ns, end_ns) AS ready_ns,
      t.ts + t.dur AS until_ns,
      t.left_censored OR t.right_censored AS is_cut,
    FROM thread_state AS t
    JOIN span ON span.trace_id = t.trace_id
    WHERE (p_process IS NULL OR t.utid IN (SELECT utid FROM who))
      AND t.state = 'ready' AND t.dur > 0 AND t.ts < end_ns AND t.ts + t.dur > start_ns
  ),
  -- Only periods that reach the 20th place are ranked, because there are millions of them. Most are
  -- too short even as a whole, which is known before they are clipped.
  reach AS (SELECT trace_id, max(ready_ns, 20)[-1] AS least_ns FROM period GROUP BY trace_id),
  ranked AS (
    SELECT
      period.*,
      row_number() OVER (
        PARTITION BY period.trace_id ORDER BY ready_ns DESC, ready_ts, utid
      ) AS place,
    FROM period
    JOIN reach
      ON reach.trace_id = period.trace_id
      AND period.whole_ns >= reach.least_ns
      AND period.ready_ns >= reach.least_ns
    QUALIFY place <= 20
  ),
  worst AS (
    SELECT
      ranked.trace_id,
      ranked.place,
      ranked.utid,
      ranked.ready_ts,
      ranked.ready_ns,
      ranked.until_ns,
      ranked.is_cut,
      min(r.ts) AS from_ns,
      max(r.ts + r.dur) AS to_ns,
      any_value(r.entered_cpu) AS entered_cpu,
      sum(r.dur) FILTER (WHERE obstacle = 'throttled') AS throttled_ns,
      sum(r.dur) FILTER (WHERE obstacle = 'idle_exit') AS idle_exit_ns,
      sum(r.dur) FILTER (WHERE obstacle = 'idle_available') AS idle_available_ns,
      sum(r.dur) FILTER (WHERE obstacle = 'parked_available') AS parked_available_ns,
      sum(r.dur) FILTER (WHERE obstacle = 'unknown') AS obstacle_unknown_ns,
      sum(r.dur) FILTER (WHERE obstacle = 'all_busy') AS all_busy_ns,
    FROM ranked
    JOIN ready_obstacle_slice(p_trace_id, p_from_ns, p_to_ns, p_min_idle_ns) AS r
      ON r.trace_id = ranked.trace_id AND r.utid = ranked.utid AND r.ready_ts = ranked.ready_ts
    GROUP BY ALL
  ),
  -- Its start or end was not seen: the edge of the recording, or lost time right before or after.
  cut AS (
    SELECT DISTINCT w.trace_id, w.place
    FROM worst AS w
    LEFT JOIN thread_state AS u
      ON u.utid = w.utid AND u.state = 'unknown' AND u.dur > 0
      AND (u.ts = w.until_ns OR u.ts + u.dur = w.ready_ts)
    WHERE w.is_cut OR u.utid IS NOT NULL
  ),
  instead AS (
    SELECT
      w.trace_id,
      w.place,
      c.utid,
      sum(clipped_ns(c.ts, c.dur, w.from_ns, w.to_ns))::BIGINT AS ns,
    FROM worst AS w
    JOIN cpu_state AS c
      ON c.trace_id = w.trace_id
      AND c.cpu = w.entered_cpu
      AND c.state = 'thread'
      AND c.ts < w.to_ns
      AND c.ts + c.dur > w.from_ns
    GROUP BY w.trace_id, w.place, c.utid
  ),
  most AS (
    SELECT
      trace_id,
      place,
      sum(ns)::BIGINT AS others_ns,
      count(*) AS others,
      max_by(utid, (ns, -utid)) AS utid,
      max(ns) AS ns,
    FROM instead
    GROUP BY trace_id, place
  )
SELECT
  -- Recording.
  w.trace_id,
  -- Rank, 1 for the longest.
  w.place::INTEGER AS place,
  -- Process; null if not recorded.
  who.process,
  -- Name of the thread that was ready.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  w.utid,
  -- Start of its ready period, which may be before the window, ns. (time)
  w.ready_ts,
  -- Ready time in the window, ns. (at least)
  w.ready_ns,
  -- True if the recording does not show its start or its end, so ready_ns is a lower bound.
  cut.place IS NOT NULL AS is_cut,
  -- CPU it then switched in on; null: not seen.
  w.entered_cpu,
  -- Process of the thread that ran longest on that CPU meanwhile; null if none ran, or if not
  -- recorded.
  named.process AS instead_process,
  -- Name of that thread; null if none ran.
  named.thread AS instead_thread,
  -- Its thread id; null if none ran.
  named.tid AS instead_tid,
  -- That thread, unique in the database; null if none ran.
  most.utid AS instead_utid,
  -- How long it ran there meanwhile, ns; null if none ran. (at least)
  most.ns AS instead_ns,
  -- How long any thread ran there meanwhile, ns; null if the CPU is not known. (at least)
  CASE WHEN w.entered_cpu IS NOT NULL THEN coalesce(most.others_ns, 0) END AS others_ns,
  -- How many threads ran there meanwhile; null if the CPU is not known.
  CASE WHEN w.entered_cpu IS NOT NULL THEN coalesce(most.others, 0) END AS others,
  -- Throttled by a quota or a limit of its class, ns. (at least)
  coalesce(w.throttled_ns, 0)::BIGINT AS throttled_ns,
  -- At most 1 ms before the switch-in, with the CPU it switches in on still idle, ns. (at least)
  coalesce(w.idle_exit_ns, 0)::BIGINT AS idle_exit_ns,
  -- An allowed, unparked CPU was idle, ns. (at least)
  coalesce(w.idle_available_ns, 0)::BIGINT AS idle_available_ns,
  -- An allowed CPU was idle, but parked or soft-parked, ns. (no bounds)
  coalesce(w.parked_available_ns, 0)::BIGINT AS parked_available_ns,
  -- The state or the parking of an allowed CPU is unknown, ns. (no bounds)
  coalesce(w.obstacle_unknown_ns, 0)::BIGINT AS obstacle_unknown_ns,
  -- No allowed CPU was idle long enough, ns. (at least)
  coalesce(w.all_busy_ns, 0)::BIGINT AS all_busy_ns,
FROM worst AS w
JOIN who ON who.utid = w.utid
LEFT JOIN cut ON cut.trace_id = w.trace_id AND cut.place = w.place
LEFT JOIN most ON most.trace_id = w.trace_id AND most.place = w.place
LEFT JOIN named ON named.utid = most.utid
ORDER BY w.trace_id, w.place;
