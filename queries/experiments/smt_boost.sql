-- The experiment `smt-boost`: requests per second with SMT and boost off and on, under each load,
-- compared with both off (or the state nearest to it); as measured, and divided by the share of time
-- that the CPUs worked on requests (of a user's program or service: that they were busy); with clock,
-- power and requests per joule. Medians over the repeats with confidence intervals. Disturbed
-- repeats (step_disturbance) are left out if a cell has others. A gain is the median over the
-- repeats, each compared with the same repeat of the other cell.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  place AS (
    SELECT trace_id, count(DISTINCT cpu) AS cpus
    FROM topology()
    WHERE online IS DISTINCT FROM FALSE
    GROUP BY trace_id
  ),
  reported AS (
    SELECT
      trace_id,
      100.0 * sum(user_ns + system_ns + irq_ns + softirq_ns)
        / nullif(sum(user_ns + system_ns + irq_ns + softirq_ns + idle_ns + steal_ns), 0)
        AS busy_pct,
    FROM steal()
    GROUP BY trace_id
  ),
  joules AS (
    SELECT trace_id, sum(joules) FILTER (WHERE NOT contains(domain, '/')) AS joules
    FROM energy
    GROUP BY trace_id
  ),
  served AS (
    SELECT
      trace_id,
      sum(1e9 * requests / nullif(interval_ns, 0)) AS per_s,
      sum(requests) AS requests,
      sum(late_starts) AS late,
      100.0 * sum(work_ns) / nullif(sum(interval_ns) FILTER (WHERE work_ns IS NOT NULL), 0)
        AS work_pct,
      median(ghz_after) AS ghz,
    FROM experiment_worker
    GROUP BY trace_id
  ),
  -- Threads of the user's program or service.
  serving AS (
    SELECT DISTINCT trace_id, utid FROM command_thread(p_trace_id)
    UNION
    SELECT c.trace_id, t.utid
    FROM experiment_cell AS c
    JOIN process AS p ON p.trace_id = c.trace_id AND list_contains(c.service_pids, p.pid)
    JOIN thread AS t ON t.upid = p.upid
  ),
  service AS (
    SELECT s.trace_id, sum(s.run_ns) AS run_ns, sum(s.shared_ns) AS shared_ns
    FROM sibling_overlap_thread(p_trace_id) AS s
    SEMI JOIN serving USING (utid)
    GROUP BY s.trace_id
  ),
  ran AS (
    SELECT
      c.trace_id,
      c.cell,
      c.repeat,
      c.smt,
      c.boost,
      c.load,
      place.cpus,
      c.offered_per_s,
      CASE
        -- Null if it failed or had to be stopped.
        WHEN c.load = 'command' THEN 1e9 / nullif(c.command_ns, 0)
        ELSE served.per_s
      END AS per_s,
      coalesce(served.requests, CASE WHEN c.command_ns IS NOT NULL THEN 1 END) AS requests,
      c.rate_unknown,
      service.run_ns / nullif(run.end_ns - run.start_ns, 0)::DOUBLE AS service_cpus,
      100.0 * service.shared_ns / nullif(service.run_ns, 0) AS service_shared_pct,
      100.0 * served.late / nullif(served.requests, 0) AS late_pct,
      coalesce(c.khz / 1e6, served.ghz) AS ghz,
      reported.busy_pct,
      served.work_pct,
      -- A server that spins until the next request looks busy to the system.
      coalesce(served.work_pct, reported.busy_pct) AS share_pct,
      1e9 * joules.joules / nullif(c.energy_ns, 0) AS watts,
      c.throttles,
      coalesce(d.is_disturbed, FALSE) AS is_disturbed,
    FROM experiment_cell AS c
    JOIN run USING (trace_id)
    LEFT JOIN step_disturbance() AS d ON d.trace_id = c.trace_id
    LEFT JOIN place ON place.trace_id = c.trace_id
    LEFT JOIN reported ON reported.trace_id = c.trace_id
    LEFT JOIN joules ON joules.trace_id = c.trace_id
    LEFT JOIN served ON served.trace_id = c.trace_id
    LEFT JOIN service ON service.trace_id = c.trace_id
    WHERE c.experiment = 'smt-boost' AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
  ),
  kept AS (
    SELECT
      *,
      per_s / nullif(watts, 0) AS per_joule,
      100.0 * per_s / nullif(share_pct, 0) AS normalised_per_s,
    FROM (
      SELECT
        *,
        bool_and(is_disturbed) OVER (PARTITION BY cell) AS all_of_them,
        count(*) OVER (PARTITION BY cell) AS every_repeat,
      FROM ran
    )
    WHERE all_of_them OR NOT is_disturbed
  ),
  base AS (
    SELECT load, arg_min(cell, rank) AS cell
    FROM (
      SELECT load, cell, row_number() OVER (ORDER BY smt NULLS FIRST, boost NULLS FIRST) AS rank
      FROM kept
    )
    GROUP BY load
  ),
  pair AS (
    SELECT
      kept.cell,
      100.0 * (kept.per_s / nullif(b.per_s, 0) - 1) AS plain,
      100.0 * (kept.normalised_per_s / nullif(b.normalised_per_s, 0) - 1) AS normalised,
      100.0 * (kept.watts / nullif(b.watts, 0) - 1) AS watts,
      100.0 * (kept.per_joule / nullif(b.per_joule, 0) - 1) AS thrift,
    FROM kept
    JOIN base ON base.load = kept.load
    JOIN kept AS b ON b.cell = base.cell AND b.repeat = kept.repeat
  ),
  gain AS (
    SELECT
      cell,
      list_sort(list(plain) FILTER (WHERE plain IS NOT NULL)) AS plain,
      list_sort(list(normalised) FILTER (WHERE normalised IS NOT NULL)) AS normalised,
      list_sort(list(watts) FILTER (WHERE watts IS NOT NULL)) AS watts,
      list_sort(list(thrift) FILTER (WHERE thrift IS NOT NULL)) AS thrift,
    FROM pair
    GROUP BY cell
  ),
  cell AS (
    SELECT
      cell,
      any_value(smt) AS smt,
      any_value(boost) AS boost,
      any_value(load) AS load,
      median(cpus)::INTEGER AS cpus,
      median(offered_per_s) AS offered_per_s,
      count(per_s) AS runs,
      count(*) AS measured,
      list_sort(list(per_s) FILTER (WHERE per_s IS NOT NULL)) AS rates,
      sum(requests)::BIGINT AS requests,
      median(late_pct) AS late_pct,
      median(ghz) AS ghz,
      median(busy_pct) AS busy_pct,
      median(work_pct) AS work_pct,
      median(share_pct) AS share_pct,
      min(rate_unknown) FILTER (WHERE per_s IS NULL) AS rate_unknown,
      median(service_cpus) AS service_cpus,
      median(service_shared_pct) AS service_shared_pct,
      median(watts) AS watts,
      list_sort(list(watts) FILTER (WHERE watts IS NOT NULL)) AS powers,
      list_sort(list(per_joule) FILTER (WHERE per_joule IS NOT NULL)) AS thrifts,
      list_sort(list(ghz) FILTER (WHERE ghz IS NOT NULL)) AS clocks,
      any_value(every_repeat) - count(*) AS left_out,
      bool_and(is_disturbed) AS is_disturbed,
      sum(throttles)::BIGINT AS throttles,
    FROM kept
    GROUP BY cell
  ),
  rated AS (
    SELECT
      *,
      list_median(rates) AS per_s,
      100.0 * list_median(rates) / nullif(share_pct, 0) AS normalised_per_s,
      first_value(list_median(rates)) OVER same_load AS base_per_s,
      first_value(100.0 * list_median(rates) / nullif(share_pct, 0)) OVER same_load
        AS base_normalised_per_s,
      first_value(watts) OVER same_load AS base_watts,
      min(share_pct) OVER (PARTITION BY load) AS least_share_pct,
      max(share_pct) OVER (PARTITION BY load) AS most_share_pct,
    FROM cell
    -- `off` sorts before `on`.
    WINDOW same_load AS (PARTITION BY load ORDER BY smt NULLS FIRST, boost NULLS FIRST)
  )
SELECT
  -- Name of the cell.
  rated.cell,
  -- closed: the next request follows at once; open: requests arrive at random; command: a user's
  -- program; service: a user's service under a load from outside.
  load,
  -- SMT: off or on; null: unchanged, because it cannot be switched here.
  smt,
  -- Boost: off or on; null: unchanged.
  boost,
  -- Online logical CPUs, with one worker each.
  cpus,
  -- Repeats used for these numbers; those with a known rate, if there are any.
  coalesce(nullif(runs, 0), measured)::INTEGER AS repeats,
  -- Repeats left out because they were disturbed.
  left_out::INTEGER AS left_out,
  -- Whether every repeat was disturbed, so these numbers come from disturbed repeats.
  is_disturbed,
  -- Requests (or runs of the command) per second, median; null if rate_unknown says why.
  per_s,
  -- Lower end of its confidence interval.
  rates[r.low_rank] AS per_s_low,
  -- Upper end of its confidence interval.
  rates[r.high_rank] AS per_s_high,
  -- Confidence of the interval, percent.
  r.coverage_pct,
  -- Why the rate of the user's program or service is unknown in a repeat; null if it is known.
  rate_unknown,
  -- CPU time of the user's program or service divided by the time, in CPUs; null if there is none,
  -- or if not recorded.
  service_cpus,
  -- Share of that CPU time with an SMT sibling busy, percent.
  service_shared_pct,
  -- Gain over the cell with both off, percent.
  coalesce(list_median(gain.plain), 100.0 * (per_s / nullif(base_per_s, 0) - 1)) AS gain_pct,
  -- Lower end of its confidence interval; null if no repeat has both cells.
  gain.plain[g.low_rank] AS gain_low_pct,
  -- Upper end of its confidence interval.
  gain.plain[g.high_rank] AS gain_high_pct,
  -- Busy share of the online CPUs as the system counts it, percent, which includes spinning until the
  -- next request; null without snapshots.
  busy_pct,
  -- Share of time in which the workers worked on requests, percent; null for a user's program or
  -- service.
  work_pct,
  -- Requests per second divided by work_pct (busy_pct if that is unknown): what the CPUs would serve
  -- if all worked all the time.
  normalised_per_s,
  -- Gain of normalised_per_s over the cell with both off, percent.
  coalesce(
    list_median(gain.normalised),
    100.0 * (normalised_per_s / nullif(base_normalised_per_s, 0) - 1)
  ) AS normalised_gain_pct,
  -- Lower end of its confidence interval; null if no repeat has both cells.
  gain.normalised[g.low_rank] AS normalised_gain_low_pct,
  -- Upper end of its confidence interval.
  gain.normalised[g.high_rank] AS normalised_gain_high_pct,
  -- Whether these shares of the cells of this load differ by more than 5 points: then compare
  -- the normalised gain, not the plain one.
  most_share_pct - least_share_pct > 5 AS is_uneven,
  -- Requests offered per second, all workers together; null unless open.
  offered_per_s,
  -- Share of requests that found their worker busy, percent; null unless open.
  CASE WHEN load = 'open' THEN late_pct END AS late_pct,
  -- Clock, GHz, as the kernel reports it right after the cell, else measured with 64 dependent
  -- additions; null if unknown.
  ghz,
  -- Lower end of its confidence interval.
  clocks[c.low_rank] AS ghz_low,
  -- Upper end of its confidence interval.
  clocks[c.high_rank] AS ghz_high,
  -- Power of all packages, watts; null if it cannot be read.
  rated.watts,
  -- Lower end of its confidence interval.
  powers[w.low_rank] AS watts_low,
  -- Upper end of its confidence interval.
  powers[w.high_rank] AS watts_high,
  -- Increase in power over the cell with both off, percent.
  coalesce(list_median(gain.watts), 100.0 * (rated.watts / nullif(base_watts, 0) - 1))
    AS watts_gain_pct,
  -- Lower end of its confidence interval; null if no repeat has both cells, or if power cannot be
  -- read.
  gain.watts[g.low_rank] AS watts_gain_low_pct,
  -- Upper end of its confidence interval.
  gain.watts[g.high_rank] AS watts_gain_high_pct,
  -- Requests per joule of all packages; null if energy cannot be read.
  list_median(thrifts) AS requests_per_joule,
  -- Lower end of its confidence interval.
  thrifts[w.low_rank] AS requests_per_joule_low,
  -- Upper end of its confidence interval.
  thrifts[w.high_rank] AS requests_per_joule_high,
  -- Gain of requests per joule over the cell with both off, percent; null if no repeat has both
  -- cells, or if energy cannot be read.
  list_median(gain.thrift) AS requests_per_joule_gain_pct,
  -- Lower end of its confidence interval.
  gain.thrift[g.low_rank] AS requests_per_joule_gain_low_pct,
  -- Upper end of its confidence interval.
  gain.thrift[g.high_rank] AS requests_per_joule_gain_high_pct,
  -- Requests (or runs of the command) of all repeats together; null if unknown.
  requests,
  -- Thermal throttling events; null if not reported.
  throttles,
FROM rated
LEFT JOIN gain ON gain.cell = rated.cell
LEFT JOIN median_rank() AS r ON r.n = rated.runs
LEFT JOIN median_rank() AS g ON g.n = len(gain.plain)
LEFT JOIN median_rank() AS c ON c.n = len(rated.clocks)
LEFT JOIN median_rank() AS w ON w.n = len(rated.powers)
ORDER BY load, smt NULLS FIRST, boost NULLS FIRST;
