-- Quantum-end chains: threads that hand one CPU to each other only when their quantum ends, with at
-- least 3 hand-offs among at most 8 threads. Chains that overlap the window, not clipped.
-- No rows without: quantum_chain.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only chains with a thread of a process of this name; null for all.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  named AS (FROM thread_with_process(p_trace_id, NULL)),
  found AS (
    SELECT q.*
    FROM quantum_chain AS q
    JOIN span ON span.trace_id = q.trace_id
    WHERE q.ts < end_ns AND q.ts + q.dur > start_ns
  ),
  member AS (
    SELECT f.trace_id, f.chain, f.cpu, f.ts, f.dur, i.place, f.utids[i.place] AS utid
    FROM found AS f, (SELECT unnest(range(1, 9)) AS place) AS i
    WHERE i.place <= len(f.utids)
  ),
  who AS (
    SELECT
      m.trace_id,
      m.chain,
      list(coalesce(named.process, '') ORDER BY m.place) AS processes,
      list(coalesce(named.thread, '') ORDER BY m.place) AS threads,
      bool_or(chosen.utid IS NOT NULL) AS is_selected,
    FROM member AS m
    LEFT JOIN named ON named.utid = m.utid
    LEFT JOIN thread_with_process(p_trace_id, p_process) AS chosen ON chosen.utid = m.utid
    GROUP BY m.trace_id, m.chain
  ),
  -- The affinities in force when the chain started.
  allowed AS (
    SELECT m.trace_id, m.chain, m.utid, a.cpus
    FROM member AS m
    JOIN affinity_spell(p_trace_id) AS a
      ON a.utid = m.utid AND a.from_ns <= m.ts AND a.to_ns > m.ts
    WHERE a.is_known
  ),
  reach AS (
    SELECT trace_id, chain, list_sort(list_distinct(flatten(list(cpus)))) AS cpus
    FROM allowed
    GROUP BY trace_id, chain
  ),
  -- Parking may start during a chain, and its first and last slice may be long, so a state counts
  -- if it lasted for half of the serialized time.
  parking AS (
    SELECT f.trace_id, f.chain, p.cpu
    FROM found AS f
    JOIN parking_spell(p_trace_id) AS p
      ON p.trace_id = f.trace_id AND p.ts < f.ts + f.dur AND p.ts + p.dur > f.ts
    WHERE p.state IN ('parked', 'soft_parked')
    GROUP BY f.trace_id, f.chain, p.cpu
    HAVING 2 * sum(clipped_ns(p.ts, p.dur, f.ts, f.ts + f.dur))
      > any_value(coalesce(nullif(f.serialized_ns, 0), f.dur))
  ),
  parked AS (
    SELECT trace_id, chain, list_sort(list(cpu)) AS cpus
    FROM parking
    GROUP BY trace_id, chain
  ),
  ideal AS (
    SELECT
      m.trace_id,
      m.chain,
      bool_or(NOT list_contains(a.cpus, s.prev_ideal_cpu)) AS outside,
    FROM member AS m
    JOIN allowed AS a ON a.trace_id = m.trace_id AND a.chain = m.chain AND a.utid = m.utid
    JOIN context_switch AS s
      ON s.trace_id = m.trace_id
      AND s.cpu = m.cpu
      AND s.prev_utid = m.utid
      AND s.ts > m.ts
      AND s.ts <= m.ts + m.dur
    WHERE s.prev_ideal_cpu IS NOT NULL
    GROUP BY m.trace_id, m.chain
  )
SELECT
  -- Recording.
  f.trace_id,
  -- Number of the chain in its recording.
  f.chain,
  -- Logical CPU on which its threads took turns.
  f.cpu,
  -- Switch-in of the first thread, ns. (time)
  f.ts,
  -- Length, to the switch-out of the last thread, ns. (at least)
  f.dur,
  -- Hand-offs. (at least)
  f.hand_offs,
  -- Median length of the slices before a hand-off, ns. (no bounds)
  f.slice_ns,
  -- Processes of its threads in order of appearance; empty where not recorded.
  who.processes,
  -- Names of its threads in order of appearance.
  who.threads,
  -- Its threads, unique in the database.
  f.utids,
  -- Part of dur in which another CPU that a waiting thread may use was idle or parked, ns.
  -- (at least)
  f.serialized_ns,
  -- Part of dur in which another online CPU was idle, allowed or not, ns. (at least)
  f.idle_elsewhere_ns,
  -- CPUs that any of its threads may use when it starts; null if none is known.
  reach.cpus AS allowed_cpus,
  -- CPUs parked or soft-parked in it for more than half of serialized_ns (of dur, if that is 0);
  -- null: none known.
  parked.cpus AS parked_cpus,
  -- True if the ideal processor of one of its threads was outside its allowed CPUs; null if not
  -- recorded.
  ideal.outside AS ideal_outside,
  -- True if only two threads alternate, which points to a spin hand-off.
  len(f.utids) = 2 AS pair_only,
  -- Short slices that were skipped.
  f.skipped,
  -- True if some hand-off may be a sched_yield.
  f.yield_possible,
  -- False: the affinity is unknown and taken as the CPUs its threads ran on, so serialized_ns is a
  -- lower bound.
  f.affinity_known,
FROM found AS f
JOIN who ON who.trace_id = f.trace_id AND who.chain = f.chain
LEFT JOIN reach ON reach.trace_id = f.trace_id AND reach.chain = f.chain
LEFT JOIN parked ON parked.trace_id = f.trace_id AND parked.chain = f.chain
LEFT JOIN ideal ON ideal.trace_id = f.trace_id AND ideal.chain = f.chain
WHERE p_process IS NULL OR who.is_selected
ORDER BY f.trace_id, f.serialized_ns DESC, f.ts, f.cpu;
