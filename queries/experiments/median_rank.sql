-- Which of n sorted values bound their median: the values of rank `low_rank` and `high_rank`
-- contain it with at least 95 % confidence, whatever the distribution (binomial law). If n is too
-- small for that, the lowest and the highest value are used, with the confidence they give. For the
-- repeats of steps: returns no rows if none measured anything.
-- p_trace_id: no rows if this recording measured nothing; null for any.
-- p_n: only for this many values; null for 1 to 200.
WITH
  part AS (
    SELECT
      n.n,
      i.i + 1 AS rank,
      -- Probability that at most i of n values are below their median.
      sum(exp(lgamma(n.n + 1) - lgamma(i.i + 1) - lgamma(n.n - i.i + 1) - n.n * ln(2)))
        OVER (PARTITION BY n.n ORDER BY i.i) AS tail,
    FROM generate_series(1, 200) AS n(n)
    JOIN generate_series(0, 99) AS i(i) ON 2 * i.i < n.n
    WHERE (p_n IS NULL OR n.n = p_n) AND EXISTS (
        SELECT 1
        FROM (SELECT trace_id FROM experiment_cell UNION ALL SELECT trace_id FROM run) AS c
        WHERE (p_trace_id IS NULL OR c.trace_id = p_trace_id)
      )
  ),
  allowed AS (
    SELECT
      n,
      coalesce(max(rank) FILTER (WHERE 2 * tail <= 0.05), 1) AS rank,
      min(tail) AS least_tail,
      max(tail) FILTER (WHERE 2 * tail <= 0.05) AS tail,
    FROM part
    GROUP BY n
  )
SELECT
  -- Number of values.
  n::INTEGER AS n,
  -- Rank of the lower bound in ascending order, from 1.
  rank::INTEGER AS low_rank,
  -- Rank of the upper bound.
  (n + 1 - rank)::INTEGER AS high_rank,
  -- Confidence that the median is between them, percent.
  greatest(0.0, 100.0 * (1 - 2 * coalesce(tail, least_tail))) AS coverage_pct,
FROM allowed
ORDER BY n;
