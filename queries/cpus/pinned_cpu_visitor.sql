-- Other threads that ran on reserved logical CPUs: CPUs that the machine isolates, and CPUs to
-- which a worker of the workload or a single thread is pinned. Threads that Linux itself binds to one
-- CPU (ksoftirqd/1, kworker/1:2, irq/24-nvme0q1) reserve no CPU, and count as visitors.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only CPUs reserved for threads of this process; null for all, including isolated CPUs.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  who AS (FROM thread_with_process(p_trace_id)),
  isolated AS (
    SELECT c.* FROM isolated_cpu(p_trace_id) AS c SEMI JOIN span USING (trace_id)
    WHERE p_process IS NULL
  ),
  several AS (SELECT trace_id FROM cpu GROUP BY trace_id HAVING count(DISTINCT cpu) > 1),
  owner AS (
    SELECT run_worker.trace_id, run_worker.cpu, run_worker.utid
    FROM run_worker
    JOIN span USING (trace_id)
    WHERE run_worker.cpu IS NOT NULL AND run_worker.utid IS NOT NULL
    UNION
    SELECT affinity.trace_id, cpus[1], affinity.utid
    FROM affinity
    JOIN several USING (trace_id)
    JOIN span USING (trace_id)
    JOIN who ON who.utid = affinity.utid
    JOIN trace ON trace.trace_id = affinity.trace_id
    WHERE len(cpus) = 1 AND NOT is_kernel_affinity(trace.source, who.thread, cpus)
  ),
  kept_for AS MATERIALIZED (
    SELECT owner.trace_id, owner.cpu, owner.utid, who.thread
    FROM owner
    JOIN who USING (utid)
    WHERE p_process IS NULL
      OR who.utid IN (SELECT utid FROM thread_with_process(p_trace_id, p_process))
  ),
  kept AS MATERIALIZED (
    SELECT
      trace_id,
      cpu,
      bool_or(is_isolated) AS is_isolated,
      list(DISTINCT thread ORDER BY thread) FILTER (WHERE thread IS NOT NULL) AS owners,
    FROM (
      SELECT trace_id, cpu, TRUE AS is_isolated, NULL::VARCHAR AS thread FROM isolated
      UNION ALL
      SELECT trace_id, cpu, FALSE, thread FROM kept_for
    ) AS either
    GROUP BY trace_id, cpu
  ),
  visit AS MATERIALIZED (
    SELECT
      s.trace_id,
      s.cpu,
      s.utid,
      greatest(s.ts, start_ns) AS from_ns,
      least(s.ts + s.dur, end_ns) AS to_ns,
      span.dur_ns AS window_ns,
    FROM sched_slice AS s
    JOIN span USING (trace_id)
    JOIN kept ON kept.trace_id = s.trace_id AND kept.cpu = s.cpu
    ANTI JOIN owner ON owner.utid = s.utid AND owner.cpu = s.cpu
    WHERE NOT s.is_idle AND s.ts <= end_ns AND s.ts + s.dur >= start_ns
  ),
  -- Ready time of a CPU's owners, accumulated up to each moment at which an owner's ready state or
  -- a visit starts or ends. The overlap with a visit is then the difference of two rows.
  edge AS (
    SELECT t.trace_id, kept_for.cpu, t.ts AS ts, 1 AS step
    FROM thread_state AS t
    JOIN kept_for ON kept_for.utid = t.utid
    WHERE t.state = 'ready' AND t.dur > 0
    UNION ALL
    SELECT t.trace_id, kept_for.cpu, t.ts + t.dur, -1
    FROM thread_state AS t
    JOIN kept_for ON kept_for.utid = t.utid
    WHERE t.state = 'ready' AND t.dur > 0
    UNION ALL
    SELECT trace_id, cpu, from_ns, 0 FROM visit
    UNION ALL
    SELECT trace_id, cpu, to_ns, 0 FROM visit
  ),
  level AS (
    SELECT
      trace_id,
      cpu,
      ts,
      sum(sum(step)) OVER (PARTITION BY trace_id, cpu ORDER BY ts)::BIGINT AS ready,
    FROM edge
    GROUP BY trace_id, cpu, ts
  ),
  piece AS (
    SELECT
      *,
      lag(ready) OVER (PARTITION BY trace_id, cpu ORDER BY ts)
        * (ts - lag(ts) OVER (PARTITION BY trace_id, cpu ORDER BY ts)) AS ready_ns,
    FROM level
  ),
  summed AS MATERIALIZED (
    SELECT
      trace_id,
      cpu,
      ts,
      coalesce(sum(ready_ns) OVER (PARTITION BY trace_id, cpu ORDER BY ts), 0)::BIGINT AS ready_ns,
    FROM piece
  ),
  weighed AS (
    SELECT
      visit.*,
      b.ready_ns - a.ready_ns AS delayed_ns,
    FROM visit
    JOIN summed AS a
      ON a.trace_id = visit.trace_id AND a.cpu = visit.cpu AND a.ts = visit.from_ns
    JOIN summed AS b
      ON b.trace_id = visit.trace_id AND b.cpu = visit.cpu AND b.ts = visit.to_ns
  ),
  visitor AS (
    SELECT
      trace_id,
      cpu,
      utid,
      count(*) AS slices,
      sum(to_ns - from_ns)::BIGINT AS run_ns,
      max(to_ns - from_ns) AS longest_ns,
      100.0 * sum(to_ns - from_ns) / nullif(any_value(window_ns), 0) AS run_pct,
      sum(delayed_ns)::BIGINT AS owner_ready_ns,
    FROM weighed
    GROUP BY trace_id, cpu, utid
  )
SELECT
  -- Recording.
  visitor.trace_id,
  -- Reserved logical CPU.
  visitor.cpu,
  -- True if the machine isolates it; false if only pinned threads reserve it.
  kept.is_isolated,
  -- Names of the threads pinned to it; null if none.
  kept.owners,
  -- Process of the visitor; null if not recorded.
  who.process,
  -- Name of the visitor.
  who.thread,
  -- Thread id of the visitor.
  who.tid,
  -- The visitor, unique in the database.
  visitor.utid,
  -- True if the visitor is a kernel thread bound to this CPU, which cannot be moved.
  visitor.cpu IS NOT DISTINCT FROM kernel_bound_cpu(trace.source, who.thread) AS is_bound,
  -- Its slices there.
  slices,
  -- Its running time there, ns. (at least; unknown_ns more at most)
  run_ns,
  -- run_ns as a share of the window, percent. (at least)
  run_pct,
  -- Its longest slice there, clipped to the window, ns. (at least)
  longest_ns,
  -- Ready time of the pinned threads while the visitor ran there, summed over them, ns. (at least)
  owner_ready_ns,
  -- Time in which the states of both the visitor and the CPU may be unknown, ns. (bound)
  least(coalesce(t.run_unknown_ns, 0), coalesce(c.unknown_ns, 0)) AS unknown_ns,
FROM visitor
LEFT JOIN thread_unknown(p_trace_id, p_from_ns, p_to_ns) AS t ON t.utid = visitor.utid
LEFT JOIN cpu_unknown(p_trace_id, p_from_ns, p_to_ns) AS c
  ON c.trace_id = visitor.trace_id AND c.cpu = visitor.cpu
JOIN kept ON kept.trace_id = visitor.trace_id AND kept.cpu = visitor.cpu
JOIN who ON who.utid = visitor.utid
JOIN trace ON trace.trace_id = visitor.trace_id
ORDER BY visitor.trace_id, visitor.cpu, run_ns DESC, visitor.utid;
