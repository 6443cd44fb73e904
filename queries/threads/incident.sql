-- What made a ring save its events (collect --ring): the thread it happened to, and the thread and
-- the code that caused it. A thread that was ready was kept from its CPU by the thread that ran
-- longest there meanwhile; a thread that waited, by the thread that woke it.
-- No rows without: mark.
-- p_trace_id: only this recording; null for all.
WITH
  happened AS (
    SELECT m.trace_id, m.ts AS from_ns, m.ts + coalesce(m.dur, 0) AS to_ns
    FROM mark AS m
    WHERE m.kind = 'incident' AND (p_trace_id IS NULL OR m.trace_id = p_trace_id)
  ),
  said AS (
    SELECT
      h.trace_id,
      h.from_ns,
      h.to_ns,
      max(s.value) FILTER (WHERE s.key = 'incident_kind') AS kind,
      try_cast(max(s.value) FILTER (WHERE s.key = 'incident_tid') AS BIGINT) AS tid,
      try_cast(max(s.value) FILTER (WHERE s.key = 'incident_pid') AS BIGINT) AS pid,
      try_cast(max(s.value) FILTER (WHERE s.key = 'incident_measured') AS DOUBLE) AS measured,
      try_cast(max(s.value) FILTER (WHERE s.key = 'incident_limit') AS DOUBLE) AS limit_value,
    FROM happened AS h
    LEFT JOIN machine_setting AS s ON s.trace_id = h.trace_id
    GROUP BY h.trace_id, h.from_ns, h.to_ns
  ),
  -- The longest time off the CPU: ready, or within a frame also waiting.
  victim AS (
    SELECT
      said.trace_id,
      state.utid,
      state.state,
      state.ts,
      state.ts + state.dur AS end_ns,
    FROM said
    JOIN thread_state AS state
      ON state.trace_id = said.trace_id
      AND state.ts < said.to_ns AND state.ts + state.dur > said.from_ns
      AND (state.state = 'ready' OR (state.state = 'waiting' AND said.kind = 'frame'))
    JOIN thread ON thread.utid = state.utid
    LEFT JOIN process ON process.upid = thread.upid
    WHERE said.kind <> 'cpu' AND NOT thread.is_idle
      AND CASE
        WHEN said.tid IS NOT NULL THEN thread.tid = said.tid
        WHEN said.pid IS NOT NULL THEN process.pid = said.pid
        ELSE true
      END
    QUALIFY row_number() OVER (
      PARTITION BY said.trace_id
      ORDER BY
        clipped_ns(state.ts, state.dur, said.from_ns, said.to_ns) DESC,
        state.utid,
        state.ts
    ) = 1
  ),
  -- Where the thread then ran, so the CPU that it waited for. If lost records hide that, the one on
  -- which it was woken, else the last one on which it ran.
  entered AS (
    SELECT
      victim.trace_id,
      coalesce(
        any_value(next.cpu), max_by(woken.target_cpu, woken.seq), max_by(last.cpu, last.ts)
      ) AS cpu,
    FROM victim
    LEFT JOIN sched_slice AS next ON next.utid = victim.utid AND next.ts = victim.end_ns
    LEFT JOIN wakeup AS woken
      ON woken.utid = victim.utid AND woken.ts = victim.ts AND woken.effective
    LEFT JOIN sched_slice AS last
      ON last.utid = victim.utid AND last.ts + last.dur <= victim.ts
    WHERE victim.state = 'ready'
    GROUP BY victim.trace_id
  ),
  ran AS (
    SELECT
      said.trace_id,
      c.utid,
      CASE WHEN said.kind <> 'cpu' THEN c.cpu END AS cpu,
      coalesce(victim.ts, said.from_ns) AS from_ns,
      coalesce(victim.end_ns, said.to_ns) AS to_ns,
      sum(
        clipped_ns(
          c.ts, c.dur, coalesce(victim.ts, said.from_ns), coalesce(victim.end_ns, said.to_ns)
        )
      )::BIGINT AS ran_ns,
    FROM said
    LEFT JOIN victim ON victim.trace_id = said.trace_id
    LEFT JOIN entered ON entered.trace_id = said.trace_id
    JOIN cpu_state AS c
      ON c.trace_id = said.trace_id
      AND c.state = 'thread'
      AND c.ts < coalesce(victim.end_ns, said.to_ns)
      AND c.ts + c.dur > coalesce(victim.ts, said.from_ns)
    JOIN thread ON thread.utid = c.utid
    LEFT JOIN process ON process.upid = thread.upid
    WHERE CASE
      WHEN said.kind = 'cpu' THEN process.pid = said.pid
      ELSE victim.state = 'ready' AND c.cpu = entered.cpu
    END
    GROUP BY ALL
  ),
  blamed AS (
    SELECT trace_id, utid, cpu, from_ns, to_ns, ran_ns
    FROM ran
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY ran_ns DESC, utid) = 1
  ),
  woken AS (
    SELECT
      victim.trace_id,
      w.waker_utid AS utid,
      w.cpu,
      w.stack_id,
      w.in_interrupt,
    FROM victim
    JOIN wakeup AS w ON w.utid = victim.utid AND w.ts = victim.end_ns AND w.effective
    WHERE victim.state = 'waiting'
    QUALIFY row_number() OVER (PARTITION BY victim.trace_id ORDER BY w.cpu) = 1
  ),
  -- What the thread ran: most samples, else the stack with which it left the CPU.
  sampled AS (
    SELECT
      b.trace_id,
      coalesce(t.own_frame, t.user_frame, t.frame) AS code,
      count(*) AS samples,
    FROM blamed AS b
    JOIN sample AS s
      ON s.trace_id = b.trace_id AND s.utid = b.utid AND s.ts BETWEEN b.from_ns AND b.to_ns
      AND (b.cpu IS NULL OR s.cpu = b.cpu)
    JOIN stack_text(p_trace_id) AS t ON t.stack_id = s.stack_id
    GROUP BY b.trace_id, code
    QUALIFY row_number() OVER (PARTITION BY b.trace_id ORDER BY count(*) DESC, code) = 1
  ),
  left_with AS (
    SELECT b.trace_id, coalesce(t.own_frame, t.user_frame, t.frame) AS code
    FROM blamed AS b
    JOIN left_stack(p_trace_id) AS c
      ON c.trace_id = b.trace_id AND c.utid = b.utid AND c.ts BETWEEN b.from_ns AND b.to_ns
      AND (b.cpu IS NULL OR c.cpu = b.cpu)
    JOIN stack_text(p_trace_id) AS t ON t.stack_id = c.stack_id
    QUALIFY row_number() OVER (PARTITION BY b.trace_id ORDER BY c.ts DESC) = 1
  ),
  woke_in AS (
    SELECT woken.trace_id, coalesce(t.own_frame, t.user_frame, t.frame) AS code
    FROM woken
    JOIN stack_text(p_trace_id) AS t ON t.stack_id = woken.stack_id
  )
SELECT
  -- Recording.
  said.trace_id,
  -- What happened: ready, frame, cpu, command, signal, enter, or interrupt.
  said.kind,
  -- It happened after this time. (time)
  said.from_ns,
  -- It happened before this time. (time)
  said.to_ns,
  -- What was measured: ms, or percent of one CPU for cpu; null if nothing was.
  said.measured,
  -- Its limit, in the same unit; null if there was none.
  said.limit_value,
  -- Process of the thread that it happened to; null if there is none, as for cpu.
  who.process,
  -- Name of that thread.
  who.thread,
  -- Its thread id.
  who.tid,
  -- The thread, unique in the database.
  victim.utid,
  -- ready or waiting: what it did.
  victim.state,
  -- Since when. (time)
  victim.ts AS start_ns,
  -- How long, ns. (no bounds)
  victim.end_ns - victim.ts AS dur_ns,
  -- CPU that a ready thread waited for: where it ran next, or, if lost records hide that, where it
  -- was woken or ran before; null if neither is recorded, or it did not wait for one.
  entered.cpu,
  -- Process of the thread that caused it; null if unknown.
  culprit.process AS by_process,
  -- Name of the thread that caused it: it ran on that CPU, or woke the thread; null if unknown.
  culprit.thread AS by_thread,
  -- Its thread id.
  culprit.tid AS by_tid,
  -- That thread, unique in the database.
  culprit.utid AS by_utid,
  -- How long it ran meanwhile, ns; null for a waker. (at least)
  blamed.ran_ns AS by_run_ns,
  -- The function in which it did so: of its program, else of a library or the kernel; null if
  -- neither samples nor stacks show it.
  coalesce(sampled.code, left_with.code, woke_in.code) AS by_frame,
  -- Samples of it in that function; null if the function is that of a switch or a wakeup.
  sampled.samples AS by_samples,
  -- An interrupt woke the thread, such as a timer: nobody held it up. Null if it was ready.
  woken.in_interrupt AS by_interrupt,
FROM said
LEFT JOIN victim ON victim.trace_id = said.trace_id
LEFT JOIN thread_with_process(p_trace_id, NULL) AS who ON who.utid = victim.utid
LEFT JOIN entered ON entered.trace_id = said.trace_id
LEFT JOIN blamed ON blamed.trace_id = said.trace_id
LEFT JOIN woken ON woken.trace_id = said.trace_id
LEFT JOIN thread_with_process(p_trace_id, NULL) AS culprit
  ON culprit.utid = coalesce(blamed.utid, woken.utid)
LEFT JOIN sampled ON sampled.trace_id = said.trace_id
LEFT JOIN left_with ON left_with.trace_id = said.trace_id
LEFT JOIN woke_in ON woke_in.trace_id = said.trace_id
ORDER BY said.trace_id, said.from_ns;
