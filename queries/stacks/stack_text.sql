-- Stacks as texts, one row for each stack of a switch, a wakeup or a sample.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
-- p_stack_id: only this stack; null for all.
WITH RECURSIVE
  used AS (
    SELECT DISTINCT trace_id, stack_id
    FROM (
      SELECT trace_id, coalesce(stack_id, next_stack_id) AS stack_id FROM context_switch
      UNION ALL
      SELECT trace_id, stack_id FROM wakeup
      UNION ALL
      SELECT trace_id, stack_id FROM sample
    )
    WHERE stack_id IS NOT NULL AND (p_trace_id IS NULL OR trace_id = p_trace_id)
      AND (p_stack_id IS NULL OR stack_id = p_stack_id)
  ),
  named AS MATERIALIZED (
    SELECT
      trace_id,
      stack_id,
      parent_id,
      depth,
      frame,
      symbol IS NOT NULL AND NOT is_kernel AND module NOT LIKE '[%'
        AND NOT regexp_matches(
          module, '/(ld-linux|libc|libm|libpthread|librt|libstdc\+\+|libgcc_s|libdl)[-.][^/]*$'
        )
        AND NOT regexp_matches(
          module,
          '\\(ntdll|kernel32|kernelbase|win32u|user32|wow64\w*|ucrtbase|msvcr\w*|msvcp\w*|vcruntime\w*)\.dll$',
          'i'
        )
        AND NOT regexp_matches(symbol, '^<?(std|core|alloc|parking_lot(_core)?)::') AS is_own,
      is_kernel,
    FROM stack_frame(p_trace_id)
  ),
  climbed AS (
    SELECT used.trace_id, used.stack_id, named.* EXCLUDE (trace_id, stack_id)
    FROM used
    JOIN named USING (stack_id)
    UNION ALL
    SELECT c.trace_id, c.stack_id, named.* EXCLUDE (trace_id, stack_id)
    FROM climbed AS c
    -- Each caller is less deep, so that damaged stacks that call each other end.
    JOIN named ON named.stack_id = c.parent_id AND named.depth < c.depth
  )
SELECT
  -- Recording.
  trace_id,
  -- The stack.
  stack_id,
  -- Number of functions in it.
  count(*) AS frames,
  -- Its functions from the outermost to the innermost, separated by semicolons.
  string_agg(replace(frame, ';', ':'), ';' ORDER BY depth) AS folded,
  -- Innermost function outside the kernel; null if the stack is in the kernel only.
  arg_max(frame, depth) FILTER (WHERE NOT is_kernel) AS user_frame,
  -- Innermost named function outside the kernel, the C library or the system's libraries of Windows,
  -- and the standard libraries of C++ and Rust; null if there is none.
  arg_max(frame, depth) FILTER (WHERE is_own) AS own_frame,
  -- Innermost function.
  arg_max(frame, depth) AS frame,
FROM climbed
GROUP BY trace_id, stack_id
ORDER BY trace_id, stack_id;
