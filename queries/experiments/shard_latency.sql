-- The experiment `shards`: latency of pinned request loops, placed by CPU number and by topology,
-- and on a core whose SMT sibling is idle, busy, or 5 % busy, for each shard and for all together,
-- over all repeats, compared with placement by topology or an idle sibling. Disturbed repeats (step_disturbance) are
-- left out if a cell has others.
-- No rows without: experiment_cell.
-- p_trace_id: only this recording; null for all.
WITH
  place AS (
    SELECT trace_id, cpu, arg_max(core, from_ns) AS core
    FROM topology()
    GROUP BY trace_id, cpu
  ),
  crowd AS (
    SELECT w.trace_id, place.core, count(*) AS shards
    FROM run_worker AS w
    JOIN place ON place.trace_id = w.trace_id AND place.cpu = w.cpu
    GROUP BY w.trace_id, place.core
  ),
  undisturbed AS (
    SELECT trace_id, is_disturbed
    FROM judged_cell()
    WHERE experiment = 'shards'
  ),
  seat AS (
    SELECT
      c.trace_id,
      c.cell,
      c.place,
      w.worker,
      w.cpu,
      place.core,
      crowd.shards AS on_core,
      e.requests,
      e.late_starts,
      e.busy_ns,
      e.interval_ns,
    FROM experiment_cell AS c
    JOIN run_worker AS w USING (trace_id)
    JOIN experiment_worker AS e ON e.trace_id = c.trace_id AND e.worker = w.worker
    LEFT JOIN place ON place.trace_id = w.trace_id AND place.cpu = w.cpu
    LEFT JOIN crowd ON crowd.trace_id = w.trace_id AND crowd.core = place.core
    WHERE c.experiment = 'shards' AND (p_trace_id IS NULL OR c.trace_id = p_trace_id)
      -- What runs on a shard's sibling serves no requests.
      AND e.requests IS NOT NULL
      AND c.trace_id IN (SELECT trace_id FROM undisturbed)
  ),
  -- Each shard, and all shards of a cell (worker null).
  part AS (
    SELECT cell, worker, trace_id, worker AS of_worker FROM seat
    UNION ALL
    SELECT cell, NULL, trace_id, worker FROM seat
  ),
  summed AS (
    SELECT part.cell, part.worker, l.bucket_ns, sum(l.requests) AS requests
    FROM part
    JOIN worker_latency AS l ON l.trace_id = part.trace_id AND l.worker = part.of_worker
    GROUP BY part.cell, part.worker, l.bucket_ns
  ),
  cumulated AS (
    SELECT
      *,
      sum(requests) OVER (PARTITION BY cell, worker ORDER BY bucket_ns) AS so_far,
      sum(requests) OVER (PARTITION BY cell, worker) AS total,
    FROM summed
  ),
  latency AS (
    SELECT
      cell,
      worker,
      any_value(total)::BIGINT AS requests,
      min(bucket_ns) FILTER (WHERE so_far >= 0.5 * total) AS p50_ns,
      min(bucket_ns) FILTER (WHERE so_far >= 0.99 * total) AS p99_ns,
      min(bucket_ns) FILTER (WHERE so_far >= 0.999 * total) AS p999_ns,
    FROM cumulated
    GROUP BY cell, worker
  ),
  -- The p99 of each single repeat, for the confidence interval.
  of_run AS (
    SELECT
      part.cell,
      part.worker,
      part.trace_id,
      l.bucket_ns,
      sum(sum(l.requests)) OVER (
        PARTITION BY part.cell, part.worker, part.trace_id ORDER BY l.bucket_ns
      ) AS so_far,
      sum(sum(l.requests)) OVER (PARTITION BY part.cell, part.worker, part.trace_id) AS total,
    FROM part
    JOIN worker_latency AS l ON l.trace_id = part.trace_id AND l.worker = part.of_worker
    GROUP BY part.cell, part.worker, part.trace_id, l.bucket_ns
  ),
  tail AS (
    SELECT
      of_run.cell,
      of_run.worker,
      any_value(c.repeat) AS repeat,
      any_value(
        CASE
          WHEN c.place IN ('by_number', 'by_offset', 'by_topology') THEN 'by_topology'
          ELSE 'sibling_idle'
        END
      ) AS base_place,
      any_value(c.place) AS place,
      CASE WHEN any_value(total) * 0.01 >= 10
        THEN min(bucket_ns) FILTER (WHERE so_far >= 0.99 * total)
      END AS p99_ns,
      CASE WHEN any_value(total) * 0.001 >= 10
        THEN min(bucket_ns) FILTER (WHERE so_far >= 0.999 * total)
      END AS p999_ns,
    FROM of_run
    JOIN experiment_cell AS c USING (trace_id)
    GROUP BY of_run.cell, of_run.worker, of_run.trace_id
  ),
  -- Requests of one repeat arrive at the same times in all cells, so the ratio is by repeat.
  ratio AS (
    SELECT
      tail.*,
      tail.p99_ns / nullif(base.p99_ns, 0) AS p99_ratio,
      tail.p999_ns / nullif(base.p999_ns, 0) AS p999_ratio,
    FROM tail
    LEFT JOIN tail AS base
      ON base.place = tail.base_place AND base.repeat = tail.repeat
      AND base.worker IS NULL AND tail.worker IS NULL AND base.cell <> tail.cell
  ),
  ends AS (
    SELECT
      cell,
      worker,
      list_sort(list(p99_ns) FILTER (WHERE p99_ns IS NOT NULL)) AS kept,
      count(p99_ns) AS repeats,
      list_sort(list(p999_ns) FILTER (WHERE p999_ns IS NOT NULL)) AS far,
      list_sort(list(p99_ratio) FILTER (WHERE p99_ratio IS NOT NULL)) AS ratios,
      list_sort(list(p999_ratio) FILTER (WHERE p999_ratio IS NOT NULL)) AS far_ratios,
    FROM ratio
    GROUP BY cell, worker
  ),
  about AS (
    SELECT
      part.cell,
      part.worker,
      any_value(seat.place) AS place,
      CASE WHEN count(DISTINCT seat.cpu) = 1 THEN any_value(seat.cpu) END AS cpu,
      CASE WHEN count(DISTINCT seat.core) = 1 THEN any_value(seat.core) END AS core,
      max(seat.on_core) AS most_on_core,
      count(DISTINCT seat.core) AS cores,
      count(DISTINCT seat.worker) AS shards,
      sum(seat.late_starts) AS late_starts,
      sum(seat.requests) AS counted,
      sum(seat.busy_ns) AS busy_ns,
      sum(seat.interval_ns) AS interval_ns,
      bool_and(undisturbed.is_disturbed) AS is_disturbed,
    FROM part
    JOIN seat ON seat.trace_id = part.trace_id AND seat.worker = part.of_worker
    JOIN undisturbed ON undisturbed.trace_id = part.trace_id
    GROUP BY part.cell, part.worker
  )
SELECT
  -- by_number, by_offset (n, n + cores), by_topology, sibling_idle, sibling_busy, sibling_at_5_pct
  -- or two_on_one_core.
  about.place,
  -- Name of the cell.
  about.cell,
  -- Number of the shard; null for all together.
  about.worker,
  -- Logical CPU of the shard; null for all together.
  about.cpu,
  -- Its core; null for all together, or if unknown.
  about.core,
  -- Shards in this row.
  about.shards,
  -- Cores that they run on; 0 if unknown.
  about.cores,
  -- Largest number of shards that share a core; null if unknown.
  about.most_on_core,
  -- Requests served.
  latency.requests,
  -- Median latency from the intended arrival, ns. (exact)
  latency.p50_ns,
  -- 99 % of the requests do not exceed this latency, ns; null if fewer than 10 are beyond it.
  -- (exact)
  CASE WHEN latency.requests * 0.01 >= 10 THEN latency.p99_ns END AS p99_ns,
  -- Lower end of its confidence interval over the repeats, ns; null if no single repeat has enough
  -- requests. (exact)
  ends.kept[r.low_rank] AS p99_low_ns,
  -- Upper end of its confidence interval, ns. (exact)
  ends.kept[r.high_rank] AS p99_high_ns,
  -- Confidence of the interval, percent.
  r.coverage_pct,
  -- 99.9 % do not exceed this latency, ns; null if fewer than 10 are beyond it. (exact)
  CASE WHEN latency.requests * 0.001 >= 10 THEN latency.p999_ns END AS p999_ns,
  -- Lower end of its confidence interval over the repeats, ns; null if no single repeat has enough
  -- requests. (exact)
  ends.far[f.low_rank] AS p999_low_ns,
  -- Upper end of its confidence interval, ns. (exact)
  ends.far[f.high_rank] AS p999_high_ns,
  -- p99 divided by that by topology (for placements of all shards) or with the sibling idle, median
  -- over the repeats that have both; null for a single shard, and for these themselves.
  list_median(ends.ratios) AS p99_ratio,
  -- Lower end of its confidence interval.
  ends.ratios[a.low_rank] AS p99_ratio_low,
  -- Upper end of its confidence interval.
  ends.ratios[a.high_rank] AS p99_ratio_high,
  -- The same for the p99.9.
  list_median(ends.far_ratios) AS p999_ratio,
  -- Lower end of its confidence interval.
  ends.far_ratios[b.low_rank] AS p999_ratio_low,
  -- Upper end of its confidence interval.
  ends.far_ratios[b.high_rank] AS p999_ratio_high,
  -- Share of requests that arrived while the shard was busy, percent.
  100.0 * about.late_starts / nullif(about.counted, 0) AS late_pct,
  -- Share of time in which the shards were busy with requests, percent. The two shares agree if
  -- requests arrive at random.
  100.0 * about.busy_ns / nullif(about.interval_ns, 0) AS busy_pct,
  -- Whether every repeat was disturbed.
  about.is_disturbed,
FROM about
LEFT JOIN latency
  ON latency.cell = about.cell AND latency.worker IS NOT DISTINCT FROM about.worker
LEFT JOIN ends
  ON ends.cell = about.cell AND ends.worker IS NOT DISTINCT FROM about.worker
LEFT JOIN median_rank() AS r ON r.n = ends.repeats
LEFT JOIN median_rank() AS f ON f.n = len(ends.far)
LEFT JOIN median_rank() AS a ON a.n = len(ends.ratios)
LEFT JOIN median_rank() AS b ON b.n = len(ends.far_ratios)
ORDER BY about.place, about.worker NULLS FIRST;
