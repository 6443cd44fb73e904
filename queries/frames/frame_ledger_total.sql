-- Where the time of all frames of a process went, and of its stutters alone, by part, along the
-- presenting thread or the critical path; with shares of all frame time.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only frames of processes of this name; null for all.
-- p_path [false]: follow the critical path instead of the presenting thread.
SELECT
  -- Recording.
  trace_id,
  -- Name of the presenting process.
  any_value(process) AS process,
  -- Process, unique in the database.
  upid,
  -- Part of the frames: what the time was spent on.
  part,
  -- Wait reason of a wait, where recorded.
  reason,
  -- Time in this part over all frames, ns. (no bounds)
  sum(dur)::BIGINT AS total_ns,
  -- Share of all frame time, percent. (no bounds)
  100.0 * sum(dur) / nullif(sum(sum(dur)) OVER (PARTITION BY trace_id, upid), 0) AS total_pct,
  -- Time in this part in frames that stuttered, ns. (no bounds)
  coalesce(sum(dur) FILTER (WHERE stutter), 0)::BIGINT AS stutter_ns,
  -- Share of the time of the frames that stuttered, percent; null if none did. (no bounds)
  100.0 * coalesce(sum(dur) FILTER (WHERE stutter), 0)
    / nullif(sum(sum(dur) FILTER (WHERE stutter)) OVER (PARTITION BY trace_id, upid), 0)
    AS stutter_pct,
FROM frame_ledger(p_trace_id, p_from_ns, p_to_ns, p_process, p_path)
GROUP BY trace_id, upid, part, reason
ORDER BY trace_id, upid, total_ns DESC, part, reason;
