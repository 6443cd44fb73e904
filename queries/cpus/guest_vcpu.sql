-- Which thread of the host runs each CPU of a guest, if recordings of both were analyzed together,
-- and what to add to times of the guest's recording to get times of the host's.
-- No rows without: guest_cpu.
-- p_trace_id: only guests whose recording is this one; null for all.
SELECT
  -- Recording of the guest.
  guest.trace_id,
  -- Name of the guest.
  place.guest,
  -- Logical CPU of the guest.
  place.cpu,
  -- Recording of the host.
  place.trace_id AS host_trace_id,
  -- Thread of the host, unique in the database; null if none of its records names it.
  place.utid AS host_utid,
  -- Thread id of it.
  place.tid AS host_tid,
  -- Name of it.
  thread.name AS host_thread,
  -- Time of the host minus time of the guest at the same moment, ns. (exact)
  guest_trace.start_clock - host_trace.start_clock AS offset_ns,
FROM guest_cpu AS place
JOIN recording_identity AS guest ON guest.recording_uid = place.guest_uid
-- A guest whose times were not converted into those of this host cannot be compared.
JOIN recording_identity AS host
  ON host.trace_id = place.trace_id AND host.recording_uid = guest.host_uid
JOIN trace AS guest_trace ON guest_trace.trace_id = guest.trace_id
JOIN trace AS host_trace ON host_trace.trace_id = place.trace_id
LEFT JOIN thread ON thread.utid = place.utid
WHERE p_trace_id IS NULL OR guest.trace_id = p_trace_id
ORDER BY guest.trace_id, place.cpu, place.trace_id;
