-- How many independent chains of 64-bit multiplications saturate the multipliers of a core (latency
-- x multipliers), from the workloads imul1, imul2, ... with one worker: the last one whose
-- iteration takes at most 5 % longer than that of imul1.
-- No rows without: run_worker.
-- Few rows, which other questions read.
-- p_trace_id: only this step, which gives a result only if it is one of imul1; null for the whole
-- database.
WITH
  place AS (
    SELECT trace_id, cpu, arg_max(core_type, from_ns) AS core_type
    FROM topology(p_trace_id)
    GROUP BY trace_id, cpu
  ),
  alone AS (
    SELECT
      TRY_CAST(regexp_extract(run.workload, '^imul([0-9]+)$', 1) AS INTEGER) AS chains,
      place.core_type,
      1e9 / nullif(coalesce(w.batch_per_s, w.per_s), 0) AS ns,
    FROM worker_throughput(p_trace_id) AS w
    JOIN run USING (trace_id)
    LEFT JOIN place ON place.trace_id = w.trace_id AND place.cpu = w.cpu
    WHERE run.status = 'ok' AND regexp_full_match(run.workload, 'imul[0-9]+') AND run.threads = 1
  ),
  kernel AS (
    SELECT core_type, chains, median(ns) AS ns
    FROM alone
    WHERE chains >= 1
    GROUP BY core_type, chains
  ),
  base AS (SELECT core_type, ns AS base_ns FROM kernel WHERE chains = 1),
  judged AS (
    SELECT
      kernel.core_type,
      chains,
      min(chains) FILTER (WHERE ns > 1.05 * base_ns) OVER (PARTITION BY kernel.core_type) AS knee,
    FROM kernel
    JOIN base ON base.core_type IS NOT DISTINCT FROM kernel.core_type
  )
SELECT
  -- Core type; null if unknown, or if the worker was not pinned.
  core_type,
  -- First number of chains whose iteration takes more than 5 % longer; null if none was seen.
  any_value(knee) AS knee,
  -- Chains that saturate the multipliers; if no knee was seen, at least this many.
  max(chains) FILTER (WHERE knee IS NULL OR chains < knee) AS slots,
FROM judged
GROUP BY core_type
ORDER BY core_type;
