-- How much time each function took, by itself and with all functions that it called: samples,
-- waiting and ready time by the stack with which threads left their CPU, and wakeups by the stack
-- of the waker. Records without a stack are a row of their own.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- Of wakeups, those of these threads.
WITH
  weighed AS (
    SELECT trace_id, folded, samples, 0 AS wait_ns, 0 AS ready_ns, 0 AS wakings
    FROM sample_stack(p_trace_id, p_from_ns, p_to_ns, p_process)
    UNION ALL
    SELECT trace_id, folded, 0, wait_ns, ready_ns, 0
    FROM off_cpu_stack(p_trace_id, p_from_ns, p_to_ns, p_process)
    UNION ALL
    SELECT trace_id, folded, 0, 0, 0, wakings
    FROM waker_stack(p_trace_id, p_from_ns, p_to_ns, p_process)
  ),
  whole AS (
    SELECT
      trace_id,
      coalesce(string_split(folded, ';'), ['[no stack]']) AS functions,
      sum(samples)::BIGINT AS samples,
      sum(wait_ns)::BIGINT AS wait_ns,
      sum(ready_ns)::BIGINT AS ready_ns,
      sum(wakings)::BIGINT AS wakings,
    FROM weighed
    GROUP BY trace_id, folded
  ),
  -- A function that calls itself counts once in each stack.
  spread AS (
    SELECT *, unnest(list_distinct(functions)) AS frame, functions[-1] AS innermost FROM whole
  ),
  summed AS (
    SELECT
      trace_id,
      frame,
      coalesce(sum(samples) FILTER (WHERE frame = innermost), 0)::BIGINT AS self_samples,
      sum(samples)::BIGINT AS total_samples,
      coalesce(sum(wait_ns) FILTER (WHERE frame = innermost), 0)::BIGINT AS self_wait_ns,
      sum(wait_ns)::BIGINT AS total_wait_ns,
      coalesce(sum(ready_ns) FILTER (WHERE frame = innermost), 0)::BIGINT AS self_ready_ns,
      sum(ready_ns)::BIGINT AS total_ready_ns,
      coalesce(sum(wakings) FILTER (WHERE frame = innermost), 0)::BIGINT AS self_wakings,
      sum(wakings)::BIGINT AS total_wakings,
    FROM spread
    GROUP BY trace_id, frame
  ),
  sampled AS (SELECT DISTINCT trace_id FROM sample)
SELECT
  -- Recording.
  summed.trace_id,
  -- Name of the function, or its module in brackets if the name is unknown.
  summed.frame,
  -- Samples in the function itself; null if the recording has no samples.
  CASE WHEN sampled.trace_id IS NOT NULL THEN summed.self_samples END AS self_samples,
  -- Samples in it or in functions that it called; null if the recording has no samples.
  CASE WHEN sampled.trace_id IS NOT NULL THEN summed.total_samples END AS total_samples,
  -- Waiting time of threads that left their CPU in the function itself, ns. (at least)
  summed.self_wait_ns,
  -- Waiting time of threads that left it there or in functions that it called, ns. (at least)
  summed.total_wait_ns,
  -- Ready time of threads that left their CPU in the function itself, ns. (at least)
  summed.self_ready_ns,
  -- Ready time of threads that left it there or in functions that it called, ns. (at least)
  summed.total_ready_ns,
  -- Wakeups by the function itself.
  summed.self_wakings,
  -- Wakeups by it or by functions that it called.
  summed.total_wakings,
FROM summed
LEFT JOIN sampled ON sampled.trace_id = summed.trace_id
WHERE summed.total_samples + summed.total_wait_ns + summed.total_ready_ns
  + summed.total_wakings > 0
ORDER BY summed.trace_id, summed.self_wait_ns + summed.self_ready_ns DESC,
  summed.self_samples DESC, summed.self_wakings DESC, summed.frame;
