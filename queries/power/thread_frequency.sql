-- The frequency each thread ran at: the mean over its running time, if the recording contains
-- frequency changes. Time before a CPU's first change is unknown and not counted.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
SELECT
  -- Recording.
  trace_id,
  -- Name of the process; null if not recorded.
  any_value(process) AS process,
  -- Name of the thread.
  any_value(thread) AS thread,
  -- Thread id.
  any_value(tid) AS tid,
  -- Thread, unique in the database.
  utid,
  -- Running time on CPUs whose frequency is known, ns. (at least)
  sum(known_ns)::BIGINT AS known_ns,
  -- Mean frequency over this time, kHz.
  sum(avg_khz * known_ns) / sum(known_ns) AS avg_khz,
FROM thread_frequency_type(p_trace_id, p_from_ns, p_to_ns, p_process)
GROUP BY trace_id, utid
ORDER BY trace_id, known_ns DESC, utid;
