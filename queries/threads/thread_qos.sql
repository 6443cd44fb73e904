-- The quality of service (QoS) class of each thread over time, as Windows records it at context
-- switches, and how long the thread ran in it. A class applies from the switch at which it was first
-- seen. Threads whose class never differs from the default have no rows in recordings; they are high
-- from begin to end if the recording contains the class of any thread.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only threads of processes of this name, or in this group (group_thread); null for all.
-- No rows without: qos_change.
WITH
  span AS (
    FROM analysis_span(p_trace_id, p_from_ns, p_to_ns) SEMI JOIN qos_change USING (trace_id)
  ),
  who AS (FROM thread_with_process(p_trace_id, p_process)),
  -- Of changes at one time the last applies.
  change AS (
    SELECT trace_id, utid, ts, last(old_qos) AS old_qos, last(new_qos) AS new_qos
    FROM qos_change
    WHERE utid IS NOT NULL AND new_qos IS NOT NULL
    GROUP BY trace_id, utid, ts
  ),
  known AS (
    SELECT utid, ts AS from_ns, new_qos AS qos FROM change
    UNION ALL
    -- Before its first change.
    SELECT utid, -9223372036854775807, arg_min(coalesce(old_qos, new_qos), ts)
    FROM change
    GROUP BY utid
    UNION ALL
    SELECT who.utid, -9223372036854775807, '0'
    FROM who
    SEMI JOIN span ON span.trace_id = who.trace_id
    ANTI JOIN change ON change.utid = who.utid
  ),
  spell AS (
    SELECT
      utid,
      from_ns,
      coalesce(lead(from_ns) OVER (PARTITION BY utid ORDER BY from_ns), 9223372036854775807)
        AS to_ns,
      qos,
    FROM known
  ),
  clipped AS (
    SELECT
      who.*,
      spell.from_ns AS spell_ns,
      greatest(spell.from_ns, span.start_ns) AS from_ns,
      least(spell.to_ns, span.end_ns) AS to_ns,
      spell.qos,
    FROM spell
    JOIN who ON who.utid = spell.utid
    JOIN span ON span.trace_id = who.trace_id
    WHERE spell.from_ns < span.end_ns AND spell.to_ns > span.start_ns
  ),
  -- Classes change at context switches, so that one applies to a slice as a whole.
  ran AS (
    SELECT
      k.utid,
      k.from_ns AS spell_ns,
      sum(clipped_ns(s.ts, s.dur, span.start_ns, span.end_ns))::BIGINT AS run_ns,
    FROM sched_slice AS s
    JOIN span ON span.trace_id = s.trace_id
    ASOF JOIN known AS k ON k.utid = s.utid AND k.from_ns <= s.ts
    WHERE NOT s.is_idle AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns
    GROUP BY k.utid, k.from_ns
  )
SELECT
  -- Recording.
  c.trace_id,
  -- Name of the process; null if not recorded.
  c.process,
  -- Name of the thread.
  c.thread,
  -- Thread id.
  c.tid,
  -- Thread, unique in the database.
  c.utid,
  -- high (also the default), medium, low, multimedia, deadline, eco or utility, by the names in the
  -- kernel's public symbols (KHETERO_CPU_QOS); another class as recorded.
  coalesce(
    ['high', 'medium', 'low', 'multimedia', 'deadline', 'eco', 'utility'][
      TRY_CAST(c.qos AS INTEGER) + 1
    ],
    lower(c.qos)
  ) AS qos_class,
  -- Whether the class makes the scheduler prefer E cores: low, eco or utility.
  lower(c.qos) IN ('2', '5', '6', 'low', 'eco', 'utility') AS prefers_e,
  -- Start of the spell in the window, ns. (time)
  c.from_ns::BIGINT AS from_ns,
  -- Its length in the window, ns. (no bounds)
  (c.to_ns - c.from_ns)::BIGINT AS dur_ns,
  -- Running time in it, ns. (no bounds)
  coalesce(ran.run_ns, 0)::BIGINT AS run_ns,
FROM clipped AS c
LEFT JOIN ran ON ran.utid = c.utid AND ran.spell_ns = c.spell_ns
ORDER BY c.trace_id, c.utid, c.from_ns;
