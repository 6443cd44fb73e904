-- What the second thread of a core gains, by class of work: each kernel run together with itself on
-- the SMT siblings of this machine, and what to do about it. `helps` and `costs`: the confidence
-- interval of the gain is above 3 % or below -3 %. `little`: it is within 3 %. Otherwise `unclear`.
-- p_trace_id: only this recording; null for all.
WITH
  class AS (
    FROM (VALUES
      ('imul1', 'one chain of multiplications'),
      ('imul2', 'two chains of multiplications'),
      ('imul10', 'as many multiplications as fit'),
      ('add1', 'a loop of one addition'),
      ('add8', 'one chain of additions'),
      ('sha256', 'hashing on the vector ports'),
      ('aes', 'AES, hot in L1'),
      ('matmul', 'matrix product, hot in L1'),
      ('pointer_chase', 'pointer chase'),
      ('scan', 'table scan'),
      ('mem_seq', 'reads in sequence'),
      ('mem_stride', 'reads far apart'),
      ('pause', 'waiting with PAUSE'),
      ('serve', 'requests, hashed')
    ) AS class(kernel, work)
  ),
  measured AS (
    SELECT
      first AS kernel,
      coalesce(class.work, first)
        || CASE WHEN contains(first, ':') THEN ' (' || split_part(first, ':', 2) || ')' ELSE '' END
        AS work,
      added_pct,
      100.0 * (combined_low - 1) AS low_pct,
      100.0 * (combined_high - 1) AS high_pct,
      coverage_pct,
      greatest(first_slowdown, second_slowdown) AS slowdown,
      is_disturbed,
    FROM pair_interference(p_trace_id)
    LEFT JOIN class ON class.kernel = split_part(first, ':', 1)
    WHERE first = second AND place = 'siblings' AND added_pct IS NOT NULL
  ),
  judged AS (
    SELECT
      *,
      CASE
        WHEN low_pct > 3 THEN 'helps'
        WHEN high_pct < -3 THEN 'costs'
        WHEN low_pct >= -3 AND high_pct <= 3 THEN 'little'
        ELSE 'unclear'
      END AS effect,
    FROM measured
  )
SELECT
  -- Class of work.
  work,
  -- Kernel that represents it, with its variant if one was chosen.
  kernel,
  -- Gain of both siblings over one alone, percent.
  added_pct,
  -- Lower end of its confidence interval.
  low_pct,
  -- Upper end of its confidence interval.
  high_pct,
  -- Confidence of the interval, percent.
  coverage_pct,
  -- How many times longer a thread's work takes with its SMT sibling busy.
  slowdown,
  -- Effect of the second thread on throughput: helps, little, costs or unclear.
  effect,
  -- What to do.
  CASE effect
    WHEN 'helps' THEN 'for throughput use both siblings; for latency leave one idle'
    WHEN 'little' THEN 'leave the siblings idle: they add nothing and slow each thread'
    WHEN 'costs' THEN 'leave the siblings idle: two threads do less than one'
    ELSE 'measure again with more repeats: the interval is too wide to decide'
  END AS advice,
  -- Whether every repeat was disturbed.
  is_disturbed,
FROM judged
ORDER BY added_pct DESC, kernel;
