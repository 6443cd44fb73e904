-- Running time of each thread in both snapshots, compared with the growth of its own CPU clock
-- between them. The kernel charges a thread for part of each switch, so a thread with short slices
-- ran longer by its clock than by any record. This is how far run times may be off.
-- No rows without: snapshot_thread.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_min_run_ns [10000000]: leave out threads that ran less than this by their clock.
WITH
  -- The clock of a thread that is running when it is read shows its value at the last tick. Without
  -- schedstat all times are whole ticks of 10 ms.
  tick AS (
    SELECT
      t.trace_id,
      CASE
        -- Recordings of older versions do not have the time of each reading.
        WHEN count(*) FILTER (WHERE edge = 'end') > 1
          AND max(t.ts) FILTER (WHERE edge = 'end') = min(t.ts) FILTER (WHERE edge = 'end')
          THEN NULL
        WHEN bool_and((t.user_ns + t.system_ns) % 10000000 = 0) THEN 10000000
        ELSE coalesce(any_value(1000000000 // nullif(hz.hz, 0)), 10000000)
      END::BIGINT AS tick_ns,
    FROM snapshot_thread AS t
    LEFT JOIN (
      SELECT trace_id, any_value(try_cast(value AS BIGINT)) AS hz
      FROM machine_setting
      WHERE key = 'hz'
      GROUP BY trace_id
    ) AS hz USING (trace_id)
    WHERE p_trace_id IS NULL OR t.trace_id = p_trace_id
    GROUP BY t.trace_id
  ),
  clock AS (
    SELECT
      begin_.trace_id,
      begin_.utid,
      begin_.tid,
      begin_.ts AS start_ns,
      end_.ts AS end_ns,
      end_.user_ns + end_.system_ns - begin_.user_ns - begin_.system_ns AS clock_ns,
      -- Buffers that overwrite their oldest records begin after the first snapshot.
      end_.ts - begin_.ts
        - greatest(0, overlap_ns(begin_.ts, end_.ts, trace.first_ns, trace.duration_ns))
        AS uncovered_ns,
    FROM snapshot_thread AS begin_
    JOIN snapshot_thread AS end_
      ON end_.trace_id = begin_.trace_id AND end_.utid = begin_.utid AND end_.edge = 'end'
    JOIN trace ON trace.trace_id = begin_.trace_id
    WHERE begin_.edge = 'begin' AND begin_.utid IS NOT NULL
      AND (p_trace_id IS NULL OR begin_.trace_id = p_trace_id)
  ),
  traced AS (
    SELECT
      clock.utid,
      sum(clipped_ns(s.ts, s.dur, start_ns, end_ns))::BIGINT AS run_ns,
      count(*) AS slices,
    FROM sched_slice AS s
    JOIN clock ON clock.utid = s.utid
    WHERE s.ts <= end_ns AND s.ts + s.dur >= start_ns
    GROUP BY clock.utid
  ),
  lost AS (
    SELECT
      clock.utid,
      sum(clipped_ns(s.ts, s.dur, start_ns, end_ns))::BIGINT AS unknown_ns,
    FROM thread_state AS s
    JOIN clock ON clock.utid = s.utid
    WHERE s.state = 'unknown' AND s.ts <= end_ns AND s.ts + s.dur >= start_ns
    GROUP BY clock.utid
  )
SELECT
  -- Recording.
  clock.trace_id,
  -- Thread, unique in the database.
  clock.utid,
  -- Its thread id.
  clock.tid,
  -- Its name.
  thread.name AS thread,
  -- Time between the two snapshots, ns. (exact)
  (clock.end_ns - clock.start_ns)::BIGINT AS step_ns,
  -- Its running time in the trace between them, ns. (at least; unknown_ns more at most)
  coalesce(traced.run_ns, 0) AS run_ns,
  -- Its time in an unknown state between them, and what the recording does not cover, ns. (bound)
  (coalesce(lost.unknown_ns, 0) + clock.uncovered_ns)::BIGINT AS unknown_ns,
  -- Growth of its own CPU clock between them, ns. (exact)
  clock.clock_ns,
  -- Its slices between them.
  coalesce(traced.slices, 0) AS slices,
  -- Clock minus trace, ns; negative if the trace shows more. (no bounds)
  (clock.clock_ns - coalesce(traced.run_ns, 0))::BIGINT AS gap_ns,
  -- Reading error of that difference, because the clock of a running thread advances in ticks: one
  -- tick per snapshot, ns; null if the recording does not have the time of each reading. (exact)
  2 * tick.tick_ns AS reading_error_ns,
  -- Clock minus trace per slice, ns. (no bounds)
  ((clock.clock_ns - traced.run_ns) // nullif(traced.slices, 0))::BIGINT AS gap_per_slice_ns,
  -- Part of the gap that neither the reading error nor unknown time explains, percent of the
  -- running time in the trace; positive if the clock shows more. Null without running time, or if
  -- the reading error is unknown.
  CASE WHEN tick.tick_ns IS NOT NULL THEN 100.0 * (
    greatest(
      0,
      clock.clock_ns - traced.run_ns - 2 * tick.tick_ns - coalesce(lost.unknown_ns, 0)
        - clock.uncovered_ns
    )
    + least(0, clock.clock_ns - traced.run_ns + 2 * tick.tick_ns)
  ) / nullif(traced.run_ns, 0) END AS clock_gap_pct,
FROM clock
JOIN tick ON tick.trace_id = clock.trace_id
JOIN thread ON thread.utid = clock.utid
LEFT JOIN traced ON traced.utid = clock.utid
LEFT JOIN lost ON lost.utid = clock.utid
WHERE NOT thread.is_idle AND clock.clock_ns >= p_min_run_ns
ORDER BY clock.trace_id, clock_gap_pct DESC NULLS LAST, clock.utid;
