-- Requests to disks: when each was issued and done, and by which thread. The thread that issues a
-- request need not be the one that needs it: the kernel's own threads write back and read ahead.
-- No rows without: wait_event.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  event AS (
    SELECT
      *,
      lead(kind) OVER request AS next_kind,
      lead(ts) OVER request AS next_ns,
    FROM wait_event
    WHERE kind IN ('disk_issue', 'disk_done') AND (p_trace_id IS NULL OR trace_id = p_trace_id)
    WINDOW request AS (PARTITION BY trace_id, device, sector ORDER BY ts, seq)
  )
SELECT
  -- Recording.
  event.trace_id,
  -- Process of the thread that issued it; null if not recorded.
  who.process,
  -- Name of that thread; null if not recorded.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  event.utid,
  -- Disk, as major:minor.
  (event.device >> 20) || ':' || (event.device & 1048575) AS disk,
  -- First sector, of 512 bytes.
  event.sector,
  -- Length of the request.
  event.bytes,
  -- When it was issued. (exact)
  event.ts AS issue_ns,
  -- When the disk was done with it; null if not recorded. (no bounds)
  CASE WHEN event.next_kind = 'disk_done' THEN event.next_ns END AS done_ns,
  -- Time from the one to the other, ns. (no bounds)
  CASE WHEN event.next_kind = 'disk_done' THEN event.next_ns - event.ts END AS dur_ns,
FROM event
JOIN span
  ON span.trace_id = event.trace_id AND event.ts >= span.start_ns AND event.ts < span.end_ns
LEFT JOIN thread_with_process(p_trace_id, NULL) AS who ON who.utid = event.utid
WHERE event.kind = 'disk_issue'
ORDER BY event.trace_id, event.ts, event.cpu, event.seq;
