-- Latency quantiles of the requests (or frames) that a workload measured itself, one value for each
-- recording. A latency is the upper end of its bucket. A quantile with fewer than 10 requests
-- beyond it is left out.
-- p_trace_id: only this recording; null for all.
WITH
  bucket AS (
    SELECT trace_id, bucket_ns, sum(requests)::BIGINT AS requests
    FROM (
      SELECT trace_id, bucket_ns, requests FROM worker_latency
      UNION ALL
      SELECT trace_id, bucket_ns, requests FROM request_latency
      WHERE trace_id NOT IN (SELECT trace_id FROM worker_latency)
    )
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
    GROUP BY trace_id, bucket_ns
  ),
  placed AS (
    SELECT
      *,
      sum(requests) OVER (PARTITION BY trace_id ORDER BY bucket_ns) AS up_to,
      sum(requests) OVER (PARTITION BY trace_id) AS total,
    FROM bucket
  ),
  wanted AS (SELECT unnest([50.0, 95.0, 99.0]::DOUBLE[]) AS percentile)
SELECT
  -- Recording.
  placed.trace_id,
  -- Percentile.
  wanted.percentile,
  -- Latency, ns. (exact)
  min(placed.bucket_ns)::BIGINT AS latency_ns,
FROM placed
JOIN wanted
  ON placed.up_to >= placed.total * wanted.percentile / 100
  AND placed.total * (1 - wanted.percentile / 100) >= 10
GROUP BY placed.trace_id, wanted.percentile
ORDER BY placed.trace_id, wanted.percentile;
