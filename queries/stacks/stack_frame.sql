-- Every node of the stacks with its function. The callers of a stack are the nodes above it.
-- No rows without: stack.
-- p_trace_id: only this recording; null for all.
SELECT
  -- Recording.
  s.trace_id,
  -- Number of the node, unique in the database.
  s.stack_id,
  -- Node of the caller; null for an outermost function.
  s.parent_id,
  -- Number of callers above it.
  s.depth,
  -- Name of the function, or its module in brackets if the name is unknown.
  coalesce(
    f.symbol,
    CASE
      WHEN f.module IS NULL THEN '[unknown]'
      WHEN f.module LIKE '[%' THEN f.module
      ELSE '[' || regexp_extract(f.module, '[^/\\]*$') || ']'
    END
  ) AS frame,
  -- File that contains the code; null if no mapping was recorded.
  f.module,
  -- Name of the function; null if unknown.
  f.symbol,
  -- Where the name is from, as in frame_symbol; with export it is approximate. Null without a name.
  f.symbol_source,
  -- Source file; null without debug information.
  f.file,
  -- Line in it; null without debug information.
  f.line,
  -- The compiler inlined the function into its caller.
  f.is_inlined,
  -- Code of the kernel.
  f.is_kernel,
  -- Why the name is unknown or only approximate, as in frame_symbol; null if it is known.
  f.unknown_reason,
FROM stack AS s
JOIN frame_symbol AS f ON f.frame_id = s.frame_id
WHERE p_trace_id IS NULL OR s.trace_id = p_trace_id
ORDER BY s.trace_id, s.stack_id;
