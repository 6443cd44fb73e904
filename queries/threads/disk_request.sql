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
      e.*,
      is_windows_source(trace.source) AS is_windows,
      lag(e.kind) OVER same_request AS before_kind,
      lead(e.kind) OVER same_request AS next_kind,
      lead(e.ts) OVER same_request AS next_ns,
      lead(e.dur) OVER same_request AS next_dur,
      lead(e.device) OVER same_request AS next_device,
      lead(e.sector) OVER same_request AS next_sector,
      lead(e.bytes) OVER same_request AS next_bytes,
      lead(e.file) OVER same_request AS next_file,
    FROM wait_event AS e
    JOIN trace ON trace.trace_id = e.trace_id
    WHERE e.kind IN ('disk_issue', 'disk_done') AND (p_trace_id IS NULL OR e.trace_id = p_trace_id)
    -- On Windows only the end of a request contains its place on the disk.
    WINDOW same_request AS (
      PARTITION BY
        e.trace_id,
        e.request,
        CASE WHEN e.request IS NULL THEN e.device END,
        CASE WHEN e.request IS NULL THEN e.sector END
      ORDER BY e.ts, e.seq
    )
  ),
  request AS (
    SELECT
      trace_id,
      utid,
      cpu,
      seq,
      is_windows,
      operation,
      ts AS issue_ns,
      next_kind IS NOT DISTINCT FROM 'disk_done' AS is_done,
      coalesce(device, CASE WHEN is_done THEN next_device END) AS device,
      coalesce(sector, CASE WHEN is_done THEN next_sector END) AS sector,
      coalesce(bytes, CASE WHEN is_done THEN next_bytes END) AS bytes,
      CASE WHEN is_done THEN next_file END AS file,
      CASE WHEN is_done THEN next_ns END AS done_ns,
      CASE WHEN is_done THEN coalesce(next_dur, next_ns - ts) END AS dur_ns,
    FROM event
    WHERE kind = 'disk_issue'
    UNION ALL
    -- The end of a request alone, with how long it took: Windows without the keyword DiskIOInit.
    SELECT
      trace_id,
      utid,
      cpu,
      seq,
      is_windows,
      operation,
      ts - dur AS issue_ns,
      true AS is_done,
      device,
      sector,
      bytes,
      file,
      ts AS done_ns,
      dur AS dur_ns,
    FROM event
    WHERE kind = 'disk_done' AND before_kind IS DISTINCT FROM 'disk_issue' AND dur IS NOT NULL
  )
SELECT
  -- Recording.
  r.trace_id,
  -- Process of the thread that issued it; null if not recorded.
  who.process,
  -- Name of that thread; null if not recorded.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  r.utid,
  -- read, write or flush; null on Linux.
  r.operation,
  -- Disk: its number on Windows, major:minor on Linux.
  CASE
    WHEN r.is_windows THEN r.device::VARCHAR
    ELSE (r.device >> 20) || ':' || (r.device & 1048575)
  END AS disk,
  -- First sector, of 512 bytes.
  r.sector,
  -- Length of the request.
  r.bytes,
  -- File; null if not recorded.
  r.file,
  -- When it was issued; on Windows, without a record of that, by the time that it took. (exact)
  r.issue_ns,
  -- When the disk was done with it; null if not recorded. (no bounds)
  r.done_ns,
  -- How long it took, ns: on Windows as the system counted it, else from the one to the other. (no
  -- bounds)
  r.dur_ns,
FROM request AS r
JOIN span
  ON span.trace_id = r.trace_id AND r.issue_ns >= span.start_ns AND r.issue_ns < span.end_ns
LEFT JOIN thread_with_process(p_trace_id, NULL) AS who ON who.utid = r.utid
ORDER BY r.trace_id, r.issue_ns, r.cpu, r.seq;
