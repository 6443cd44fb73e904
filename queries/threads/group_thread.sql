-- Threads that were in a group at any time. Every query with a parameter p_process takes groups in
-- this form.
-- p_trace_id: only this recording; null for all.
-- p_group: cgroup:PATH (the cgroup and all below it), container:ID (its id or the beginning of it),
-- pod:ID, or service:UNIT (with or without its ending); null, or anything else: no thread.
WITH
  wanted AS (
    SELECT
      split_part(p_group, ':', 1) AS kind,
      regexp_replace(p_group, '^[a-z]+:', '') AS text,
    WHERE is_group(p_group)
  )
SELECT DISTINCT
  -- Recording.
  g.trace_id,
  -- Thread, unique in the database.
  g.utid,
FROM thread_group(p_trace_id) AS g, wanted
WHERE
  CASE wanted.kind
    WHEN 'cgroup' THEN g.cgroup = wanted.text
      OR starts_with(g.cgroup, rtrim(wanted.text, '/') || '/')
    WHEN 'container' THEN g.container = wanted.text
      OR starts_with(g.container, left(wanted.text, 12)) AND length(wanted.text) >= 4
    WHEN 'pod' THEN starts_with(g.pod, wanted.text)
    WHEN 'service' THEN g.service = wanted.text
      OR regexp_replace(g.service, '\.(service|scope)$', '') = wanted.text
  END
ORDER BY g.trace_id, g.utid;
