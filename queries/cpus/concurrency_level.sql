-- How long each number of busy logical CPUs and ready threads lasted, together with the kinds of
-- core that the busy ones are on. A core with k > 0 busy CPUs adds 1 to its core type and k - 1 to
-- smt, so that p + e + other + smt = busy.
-- Few rows, which other questions read.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns))
SELECT
  -- Recording.
  c.trace_id,
  -- Busy logical CPUs.
  c.busy,
  -- Logical CPUs in an unknown state, so more may be busy.
  c.unknown,
  -- Ready threads.
  c.ready,
  -- P or U cores with a busy CPU.
  c.p,
  -- E or LP-E cores with a busy CPU.
  c.e,
  -- Cores of unknown or numbered type with a busy CPU.
  c.other,
  -- Busy CPUs beyond the first of their core.
  c.smt,
  -- Logical CPUs that are not offline; null if unknown.
  c.online,
  -- Time with exactly these numbers, ns. (no bounds)
  sum(clipped_ns(c.ts, c.dur, span.start_ns, span.end_ns))::BIGINT AS ns,
FROM concurrency_slice AS c
JOIN span ON span.trace_id = c.trace_id
WHERE c.ts < span.end_ns AND c.ts + c.dur > span.start_ns
GROUP BY c.trace_id, c.busy, c.unknown, c.ready, c.p, c.e, c.other, c.smt, c.online
ORDER BY ALL;
