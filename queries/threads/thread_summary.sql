-- What each thread did in the window: time by state, switches, moves between CPUs, ready times.
-- Times are clipped to the window; switches, moves and ready times are those of switch-ins (or
-- switch-outs) within it, both ends included. Threads without any time in it are left out.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  place AS (FROM topology(p_trace_id)),
  -- The first wakeup of a thread alone says nothing about its waits.
  woken AS (SELECT DISTINCT trace_id FROM wakeup WHERE ends_wait(kind)),
  slice AS NOT MATERIALIZED (
    SELECT
      sched_slice.*,
      start_ns,
      end_ns,
      ts >= start_ns AND NOT left_censored AS begins,
      ts + dur <= end_ns AND NOT right_censored AS ends,
    FROM sched_slice
    JOIN span USING (trace_id)
    WHERE NOT is_idle AND ts <= end_ns AND ts + dur >= start_ns
  ),
  -- Few rows for each thread, which are then added up: a distinct count of slices costs more.
  ran AS (
    SELECT
      utid,
      cpu,
      end_reason,
      sum(clipped_ns(ts, dur, start_ns, end_ns)) AS run_ns,
      count(*) FILTER (WHERE ends) AS switches_out,
      min(priority) AS priority_min,
      max(priority) AS priority_max,
      -- A slice of no length comes before another one of the same start.
      (min(ts), min(ts + dur), cpu) AS first_at,
      (max(ts), max(ts + dur), cpu) AS last_at,
    FROM slice
    GROUP BY utid, cpu, end_reason
  ),
  -- States as in thread_state, summed where they are stored: its rows are twice as many as slices.
  spent AS (
    SELECT
      utid,
      run_ns,
      NULL AS ready_ns,
      NULL AS wait_ns,
      NULL AS new_ns,
      NULL AS lost_ns,
    FROM ran
    UNION ALL
    SELECT
      utid,
      NULL,
      sum(clipped_ns(ts - ready_ns, ready_ns, start_ns, end_ns)),
      NULL,
      NULL,
      NULL,
    FROM sched_slice
    JOIN span USING (trace_id)
    WHERE NOT is_idle AND ready_ns > 0 AND ts - ready_ns <= end_ns AND ts >= start_ns
    GROUP BY utid
    UNION ALL
    SELECT
      utid,
      NULL,
      sum(dur) FILTER (WHERE state = 'ready'),
      sum(dur) FILTER (WHERE state = 'waiting'),
      sum(dur) FILTER (WHERE state = 'new'),
      sum(dur) FILTER (WHERE state = 'unknown'),
    FROM (
      SELECT utid, state, sum(clipped_ns(ts, dur, start_ns, end_ns)) AS dur,
      FROM thread_state_other
      JOIN span USING (trace_id)
      WHERE ts <= end_ns AND ts + dur >= start_ns
      GROUP BY utid, state
    )
    GROUP BY utid
  ),
  time_in AS (
    SELECT
      utid,
      coalesce(sum(run_ns), 0)::BIGINT AS run_ns,
      coalesce(sum(ready_ns), 0)::BIGINT AS ready_ns,
      coalesce(sum(wait_ns), 0)::BIGINT AS wait_ns,
      coalesce(sum(new_ns), 0)::BIGINT AS new_ns,
      coalesce(sum(lost_ns), 0)::BIGINT AS lost_ns,
    FROM spent
    GROUP BY utid
  ),
  switches AS (
    SELECT
      utid,
      sum(switches_out) FILTER (WHERE end_reason IN ('blocked', 'exit'))::BIGINT AS voluntary_out,
      sum(switches_out) FILTER (
        WHERE end_reason NOT IN ('blocked', 'exit', 'yield', 'unknown', 'trace_end')
      )::BIGINT AS involuntary_out,
      sum(switches_out) FILTER (WHERE end_reason = 'yield')::BIGINT AS yields,
      sum(switches_out) FILTER (WHERE end_reason = 'preempted')::BIGINT AS preemptions,
      sum(switches_out) FILTER (
        WHERE end_reason IN ('quantum_end', 'quantum_end_or_yield')
      )::BIGINT AS quantum_ends,
      min(priority_min) AS priority_min,
      max(priority_max) AS priority_max,
      count(DISTINCT cpu) AS cpus,
      arg_min(cpu, first_at) AS first_cpu,
      arg_max(cpu, last_at) AS last_cpu,
    FROM ran
    GROUP BY utid
  ),
  waited AS (
    SELECT
      utid,
      count(*) AS switches_in,
      count(ready_ns) AS ready_count,
      quantile_disc(ready_ns, [0.5, 0.95, 0.99]) AS ready_at,
      max(ready_ns) AS ready_max_ns,
      count(*) FILTER (WHERE wait_ns > 0) AS waits,
      max(wait_ns) AS wait_max_ns,
    FROM slice
    WHERE begins
    GROUP BY utid
  ),
  move AS (
    SELECT
      slice.utid,
      CASE
        WHEN here.core = there.core THEN 'core'
        WHEN here.llc = there.llc THEN 'llc'
        WHEN here.package = there.package THEN 'package'
        WHEN here.package <> there.package THEN 'remote'
        ELSE 'unknown'
      END AS distance,
    FROM slice
    LEFT JOIN place AS here
      ON here.trace_id = slice.trace_id AND here.cpu = slice.cpu
      AND slice.ts >= here.from_ns AND slice.ts < here.to_ns
    LEFT JOIN place AS there
      ON there.trace_id = slice.trace_id AND there.cpu = slice.prev_cpu
      AND slice.ts >= there.from_ns AND slice.ts < there.to_ns
    WHERE begins AND slice.prev_cpu <> slice.cpu
  ),
  moves AS (
    SELECT
      utid,
      count(*) AS migrations,
      count(*) FILTER (WHERE distance = 'core') AS migrations_core,
      count(*) FILTER (WHERE distance = 'llc') AS migrations_llc,
      count(*) FILTER (WHERE distance = 'package') AS migrations_package,
      count(*) FILTER (WHERE distance = 'remote') AS migrations_remote,
      count(*) FILTER (WHERE distance = 'unknown') AS migrations_unknown,
    FROM move
    GROUP BY utid
  ),
  own AS (
    SELECT
      g.utid,
      max_by({cgroup: g.cgroup, container: g.container, service: g.service}, g.from_ns) AS last,
    FROM thread_group(p_trace_id) AS g
    JOIN span ON span.trace_id = g.trace_id
    WHERE g.from_ns < span.end_ns AND g.cgroup IS NOT NULL
    GROUP BY g.utid
  )
SELECT
  -- Recording.
  who.trace_id,
  -- Name of the process; null if not recorded.
  who.process,
  -- Process id.
  who.pid,
  -- Name of the thread.
  who.thread,
  -- Thread id.
  who.tid,
  -- Thread, unique in the database.
  who.utid,
  -- Running time, ns. (from run_ns to run_high_ns)
  run_ns,
  -- run_ns plus its unknown time, up to the time in which the state of some CPU is unknown, plus
  -- what its own CPU clock shows beyond the records, ns. (bound)
  (run_ns + coalesce(doubt.run_unknown_ns, 0))::BIGINT AS run_high_ns,
  -- run_ns as a share of the window, percent of one logical CPU. (from run_pct to run_high_pct)
  100.0 * run_ns / nullif(span.dur_ns, 0) AS run_pct,
  -- run_high_ns as a share of the window, percent. (bound)
  100.0 * (run_ns + coalesce(doubt.run_unknown_ns, 0)) / nullif(span.dur_ns, 0) AS run_high_pct,
  -- Ready time: runnable but not running, ns. (at least; unknown_ns more at most)
  ready_ns,
  -- Waiting (blocked) time, ns; null if no wakeups were recorded, because it cannot be separated
  -- from ready time. (at least; unknown_ns more at most)
  CASE WHEN woken.trace_id IS NOT NULL THEN wait_ns END AS wait_ns,
  -- Time created and not yet runnable, ns; null if no wakeups were recorded.
  -- (at least; unknown_ns more at most)
  CASE WHEN woken.trace_id IS NOT NULL THEN new_ns END AS new_ns,
  -- Time in which its state is unknown; if no wakeups were recorded, also all time in which it was
  -- blocked or ready, ns. (bound)
  (lost_ns + CASE WHEN woken.trace_id IS NULL THEN wait_ns + new_ns ELSE 0 END)::BIGINT AS unknown_ns,
  -- Switch-ins. (at least)
  coalesce(switches_in, 0) AS switches_in,
  -- Switch-outs because it blocked or exited. (at least)
  coalesce(voluntary_out, 0) AS voluntary_out,
  -- Switch-outs while still runnable, without a recorded yield.
  coalesce(involuntary_out, 0) AS involuntary_out,
  -- Switch-outs by a recorded yield.
  coalesce(yields, 0) AS yields,
  -- Part of involuntary_out: preempted by a thread that had just become ready.
  coalesce(preemptions, 0) AS preemptions,
  -- Part of involuntary_out: the quantum ended (or, if yields are not recorded, a yield).
  coalesce(quantum_ends, 0) AS quantum_ends,
  -- Switch-ins on a different CPU than before. (at least)
  coalesce(migrations, 0) AS migrations,
  -- Part of migrations: to a sibling on the same core.
  coalesce(migrations_core, 0) AS migrations_core,
  -- Part of migrations: to another core that shares the last-level cache.
  coalesce(migrations_llc, 0) AS migrations_llc,
  -- Part of migrations: to another last-level cache (or none known) of the same package.
  coalesce(migrations_package, 0) AS migrations_package,
  -- Part of migrations: to another package.
  coalesce(migrations_remote, 0) AS migrations_remote,
  -- Part of migrations: the distance is not known.
  coalesce(migrations_unknown, 0) AS migrations_unknown,
  -- Switch-ins whose ready time is known.
  coalesce(ready_count, 0) AS ready_count,
  -- Median of the known ready times before a switch-in, ns. (no bounds)
  ready_at[1] AS ready_p50_ns,
  -- 95th percentile of the known ready times, ns. (no bounds)
  ready_at[2] AS ready_p95_ns,
  -- 99th percentile of the known ready times, ns. (no bounds)
  ready_at[3] AS ready_p99_ns,
  -- Longest known ready time before a switch-in, ns. (at least)
  ready_max_ns,
  -- Switch-ins after a wait.
  coalesce(waits, 0) AS waits,
  -- Longest wait before a switch-in, ns. (at least)
  wait_max_ns,
  -- Lowest priority number it ran at, as recorded.
  priority_min,
  -- Highest priority number it ran at, as recorded.
  priority_max,
  -- Logical CPUs it ran on.
  coalesce(cpus, 0) AS cpus,
  -- First CPU it ran on in the window.
  first_cpu,
  -- Last CPU it ran on in the window.
  last_cpu,
  -- Its last cgroup in the window; null if not recorded.
  own.last.cgroup AS cgroup,
  -- Container of that cgroup; null: in none, or not recorded.
  own.last.container AS container,
  -- Systemd service or scope of that cgroup; null: in none, or not recorded.
  own.last.service AS service,
FROM who
JOIN span ON span.trace_id = who.trace_id
JOIN time_in USING (utid)
LEFT JOIN woken ON woken.trace_id = who.trace_id
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS doubt ON doubt.utid = who.utid
LEFT JOIN switches USING (utid)
LEFT JOIN waited USING (utid)
LEFT JOIN moves USING (utid)
LEFT JOIN own ON own.utid = who.utid
ORDER BY who.trace_id, run_ns DESC, who.utid;
