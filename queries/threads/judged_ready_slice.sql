-- Each part of a thread's ready time and why it was not running, clipped to the window, for any
-- shortest idle interval that counts (ready_obstacle_slice: for the usual one, from what the
-- recording's pass stored). The first cause that applies wins: throttled, idle_exit,
-- idle_available, parked_available, unknown, all_busy. The cause is also unknown if lost records
-- leave open which one applies, or if a CPU is idle that a thread of unknown affinity never ran on.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_min_idle_ns [100000]: shortest idle interval that counts.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  -- Ready until records were lost: the thread may have been switched in within 1 ms.
  unseen AS (
    SELECT open.utid, open.ready_ts, open.end_ns - 1000000 AS from_ns
    FROM (
      SELECT utid, ready_ts, max(ts + dur) AS end_ns
      FROM ready_slice
      WHERE entered_cpu IS NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
      GROUP BY utid, ready_ts
    ) AS open
    JOIN thread_state AS t
      ON t.utid = open.utid AND t.ts = open.end_ns AND t.state = 'unknown' AND t.dur > 0
  ),
  lost AS (
    SELECT trace_id, cpu, ts, dur
    FROM cpu_state
    WHERE state = 'unknown' AND dur > 0 AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  -- Idle intervals too short to count that lost records cut off: they may have been long enough.
  short_idle AS MATERIALIZED (
    SELECT trace_id, ts, max(ts + dur) AS end_ns
    FROM cpu_state
    WHERE state = 'idle' AND dur < p_min_idle_ns
      -- Two lookups: one join on either edge would compare each pair of a CPU.
      AND (
        (trace_id, cpu, ts + dur) IN (SELECT (trace_id, cpu, ts) FROM lost)
        OR (trace_id, cpu, ts) IN (SELECT (trace_id, cpu, ts + dur) FROM lost)
      )
    GROUP BY trace_id, ts
  ),
  cut AS (
    SELECT
      trace_id,
      ts,
      max(end_ns) OVER (PARTITION BY trace_id ORDER BY ts ROWS UNBOUNDED PRECEDING) AS end_ns,
    FROM short_idle
  ),
  -- Most parts are far from all of these: bins show which, without a search.
  bin AS (
    -- Of the recording: a window may be all time that there is.
    SELECT
      trace_id,
      greatest(1, coalesce(duration_ns - coalesce(first_ns, 0), 1::BIGINT << 40) // 65536)
        AS width_ns,
    FROM trace
  ),
  cut_bin AS MATERIALIZED (
    SELECT DISTINCT
      trace_id,
      unnest(range(ts // width_ns, greatest(ts, end_ns - 1) // width_ns + 1)) AS number,
    FROM short_idle
    JOIN bin USING (trace_id)
  ),
  part AS NOT MATERIALIZED (
    SELECT
      r.* EXCLUDE (obstacle, in_doubt, may_be_idle) REPLACE (
        least(r.ts + r.dur, greatest(r.ts, coalesce(u.from_ns, r.ts + r.dur))) - r.ts AS dur
      ),
      false AS is_unseen,
    FROM ready_slice AS r
    LEFT JOIN unseen AS u ON u.utid = r.utid AND u.ready_ts = r.ready_ts
    UNION ALL
    SELECT
      r.* EXCLUDE (obstacle, in_doubt, may_be_idle) REPLACE (
        greatest(r.ts, u.from_ns) AS ts,
        r.ts + r.dur - greatest(r.ts, u.from_ns) AS dur
      ),
      true,
    FROM ready_slice AS r
    JOIN unseen AS u ON u.utid = r.utid AND u.ready_ts = r.ready_ts
    WHERE r.entered_cpu IS NULL
  ),
  -- Only short idle intervals: longer ones count whether they are cut off or not.
  near AS (
    SELECT part.utid, part.trace_id, part.ts, part.ts + part.dur AS end_ns
    FROM part
    JOIN bin USING (trace_id)
    SEMI JOIN short_idle USING (trace_id)
    WHERE dur > 0 AND (idle_ns < p_min_idle_ns OR parked_ns < p_min_idle_ns)
      AND (
        dur > width_ns
        OR (trace_id, ts // width_ns) IN (FROM cut_bin)
        OR (trace_id, (ts + dur - 1) // width_ns) IN (FROM cut_bin)
      )
  ),
  short AS (
    SELECT DISTINCT r.utid, r.ts
    FROM near AS r
    ASOF JOIN cut ON cut.trace_id = r.trace_id AND cut.ts < r.end_ns
    WHERE cut.end_ns > r.ts
  ),
  judged AS (
    SELECT
      r.*,
      (r.is_unseen AND (r.idle_ns IS NOT NULL OR r.parked_ns IS NOT NULL OR r.unknown_available))
      OR (
        short.utid IS NOT NULL AND NOT r.idle_exit
        AND NOT coalesce(r.idle_ns >= p_min_idle_ns, false)
      ) AS in_doubt,
    FROM part AS r
    LEFT JOIN short ON short.utid = r.utid AND short.ts = r.ts
    WHERE r.dur > 0
  ),
  -- Lost records may hide CPUs that a thread of unknown affinity ran on.
  lossy AS (
    SELECT DISTINCT trace_id
    FROM loss
    WHERE cpu IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
  ),
  -- Threads of cgroups that ended before they were read: a quota may have throttled them.
  unread AS (
    SELECT DISTINCT t.trace_id, t.utid
    FROM thread_cgroup AS t
    WHERE t.utid IS NOT NULL AND (p_trace_id IS NULL OR t.trace_id = p_trace_id)
      AND NOT EXISTS (
        SELECT 1 FROM snapshot_cgroup AS s
        WHERE s.trace_id = t.trace_id AND s.cgroup = t.cgroup AND s.edge IN ('end', 'last')
      )
  )
SELECT
  -- Recording.
  r.trace_id,
  -- Thread, unique in the database.
  r.utid,
  -- Start, ns. (time)
  greatest(r.ts, start_ns)::BIGINT AS ts,
  -- Length, ns. (no bounds)
  clipped_ns(r.ts, r.dur, start_ns, end_ns)::BIGINT AS dur,
  -- Start of the ready period it is a part of, ns. (time)
  r.ready_ts,
  -- CPU the thread then switched in on; null: not seen.
  r.entered_cpu,
  -- Why it was not running.
  CASE
    WHEN r.throttled THEN 'throttled'
    WHEN r.in_doubt THEN 'unknown'
    WHEN r.cgroup_throttled
      AND NOT r.idle_exit
      AND greatest(coalesce(r.idle_ns, -1), coalesce(r.parked_ns, -1)) >= p_min_idle_ns
      THEN CASE WHEN unread.utid IS NULL THEN 'throttled' ELSE 'unknown' END
    WHEN r.idle_exit THEN 'idle_exit'
    WHEN r.idle_ns >= p_min_idle_ns THEN 'idle_available'
    WHEN r.parked_ns >= p_min_idle_ns THEN 'parked_available'
    WHEN r.unknown_available THEN 'unknown'
    WHEN NOT r.affinity_known
      AND (r.outside_idle_ns >= p_min_idle_ns OR lossy.trace_id IS NOT NULL)
      THEN 'unknown'
    ELSE 'all_busy'
  END AS obstacle,
  -- False: the thread's affinity is unknown and taken as the CPUs it ran on (lower bound).
  r.affinity_known,
  -- True if lost records leave open whether it switched in soon, or an idle interval was longer.
  r.in_doubt,
  -- For parked_available: true if it may have been idle_available, because the state or the parking
  -- of another allowed CPU is unknown, or because the thread's affinity is unknown and another CPU
  -- is idle.
  (
    r.unknown_available
    OR (
      NOT r.affinity_known
      AND (coalesce(r.outside_idle_ns >= p_min_idle_ns, false) OR lossy.trace_id IS NOT NULL)
    )
  )
    AND NOT r.throttled AND NOT r.idle_exit
    AND coalesce(r.idle_ns, -1) < p_min_idle_ns AND coalesce(r.parked_ns, -1) >= p_min_idle_ns
    AS may_be_idle,
  -- Length of the longest idle interval, at this moment, of an online unparked CPU outside its
  -- affinity (if that is unknown, outside the CPUs it ran on), ns; null if none was idle.
  -- (no bounds)
  r.outside_idle_ns,
FROM judged AS r
JOIN span ON span.trace_id = r.trace_id
LEFT JOIN unread ON unread.utid = r.utid
LEFT JOIN lossy ON lossy.trace_id = r.trace_id
WHERE r.ts < end_ns AND r.ts + r.dur > start_ns
ORDER BY r.trace_id, r.ts, r.utid;
