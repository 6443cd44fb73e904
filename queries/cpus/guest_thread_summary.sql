-- How much of the running time that each thread of a guest saw was real: what the host did with the
-- CPUs of the guest while the thread was on them. Only for recordings of a host and its guest that
-- were analyzed together.
-- p_trace_id: only guests whose recording is this one; null for all.
SELECT
  -- Recording of the guest.
  guest_trace_id AS trace_id,
  -- Name of the guest.
  guest,
  -- Thread of the guest, unique in the database; null: interrupts.
  guest_utid AS utid,
  -- Thread id of it.
  guest_tid AS tid,
  -- Name of it.
  guest_thread AS thread,
  -- Name of its process; null: not known.
  guest_process AS process,
  -- Time on CPUs of the guest within the time of both recordings, ns. (at least)
  sum(dur)::BIGINT AS busy_ns,
  -- Of it: the host ran the CPU, so the thread really ran, ns. (at least)
  coalesce(sum(dur) FILTER (WHERE host_state = 'running'), 0)::BIGINT AS host_running_ns,
  -- Of it: the CPU was ready and waited for a CPU of the host, ns. (at least)
  coalesce(sum(dur) FILTER (WHERE host_state = 'ready'), 0)::BIGINT AS steal_ns,
  -- Of it: the CPU was blocked in the host, as while a device is emulated, ns. (at least)
  coalesce(sum(dur) FILTER (WHERE host_state = 'waiting'), 0)::BIGINT AS host_blocked_ns,
  -- Of it: not known what the host did, ns. (no bounds)
  coalesce(sum(dur) FILTER (WHERE host_state IS NULL), 0)::BIGINT AS host_unknown_ns,
  -- steal_ns as a share of busy_ns, percent. (no bounds)
  100.0 * coalesce(sum(dur) FILTER (WHERE host_state = 'ready'), 0) / sum(dur) AS steal_pct,
  -- Most steal at a time, ns; 0 without steal. (at least)
  coalesce(max(dur) FILTER (WHERE host_state = 'ready'), 0)::BIGINT AS longest_steal_ns,
FROM guest_slice
WHERE p_trace_id IS NULL OR guest_trace_id = p_trace_id
GROUP BY guest_trace_id, guest, guest_utid, guest_tid, guest_thread, guest_process
ORDER BY guest_trace_id, steal_ns DESC, busy_ns DESC, guest_utid;
