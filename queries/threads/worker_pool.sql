-- Worker pools: at least p_least threads of a process whose names differ only in digits, and how
-- their number relates to the machine. A section starts when one of them becomes runnable and ends
-- when none is.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
-- p_process: only processes of this name; null for all.
-- p_least [3]: smallest number of threads in a pool.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  machine AS (
    SELECT
      trace_id,
      count(DISTINCT cpu) AS cpus,
      count(DISTINCT core) AS cores,
      count(DISTINCT core) FILTER (WHERE core_type IN ('P', 'U')) AS p_cores,
    FROM topology(p_trace_id)
    WHERE online IS NOT FALSE
    GROUP BY trace_id
  ),
  used AS (
    SELECT utid, sum(run_ns)::BIGINT AS run_ns, sum(shared_ns)::BIGINT AS shared_ns
    FROM thread_core_use(p_trace_id, p_from_ns, p_to_ns, p_process)
    GROUP BY utid
    HAVING sum(run_ns) > 0
  ),
  ready AS (
    SELECT t.utid, sum(clipped_ns(t.ts, t.dur, start_ns, end_ns))::BIGINT AS ns
    FROM thread_state AS t
    JOIN span ON span.trace_id = t.trace_id
    WHERE t.state = 'ready' AND t.ts < end_ns AND t.ts + t.dur > start_ns
    GROUP BY t.utid
  ),
  by_width AS MATERIALIZED (
    FROM section_scaling(p_trace_id, p_from_ns, p_to_ns, p_process, p_least)
  ),
  section AS (
    SELECT
      trace_id,
      upid,
      pool,
      sum(sections)::BIGINT AS sections,
      sum(dur_ns)::BIGINT AS wall_ns,
      (sum(dur_ns) / sum(sections))::BIGINT AS mean_ns,
      max(most_running) AS most_running,
    FROM by_width
    GROUP BY trace_id, upid, pool
  ),
  member AS (
    SELECT
      who.trace_id,
      any_value(who.process) AS process,
      who.upid,
      regexp_replace(who.thread, '[0-9]+', '#', 'g') AS pool,
      count(*) AS threads,
      sum(used.run_ns)::BIGINT AS run_ns,
      sum(used.shared_ns)::BIGINT AS shared_ns,
      coalesce(sum(ready.ns), 0)::BIGINT AS ready_ns,
    FROM thread_with_process(p_trace_id, p_process) AS who
    JOIN used ON used.utid = who.utid
    LEFT JOIN ready ON ready.utid = who.utid
    WHERE who.upid IS NOT NULL AND who.thread IS NOT NULL
    GROUP BY who.trace_id, who.upid, regexp_replace(who.thread, '[0-9]+', '#', 'g')
    HAVING count(*) >= p_least
  )
SELECT
  -- Recording.
  member.trace_id,
  -- Name of the process; null if not recorded.
  member.process,
  -- Process, unique in the database.
  member.upid,
  -- Name of its threads, with # for digits.
  member.pool,
  -- Its threads that ran.
  member.threads,
  -- Logical CPUs of the machine.
  machine.cpus,
  -- Cores of the machine; 0 if unknown.
  machine.cores,
  -- Cores of type P or U; 0 if unknown.
  machine.p_cores,
  -- What the number of threads matches: logical CPUs (at most two fewer), cores, P cores, or more
  -- than the logical CPUs; null if none of these.
  CASE
    WHEN member.threads > machine.cpus THEN 'more than logical CPUs'
    WHEN member.threads BETWEEN machine.cpus - 2 AND machine.cpus THEN 'logical CPUs'
    WHEN member.threads BETWEEN machine.cores - 1 AND machine.cores THEN 'cores'
    WHEN member.threads BETWEEN machine.p_cores - 1 AND machine.p_cores THEN 'P cores'
  END AS follows,
  -- Most of them running at once; null if unknown.
  section.most_running,
  -- Their running time, ns. (at least)
  member.run_ns,
  -- Part of run_ns with an SMT sibling busy, ns. (at least)
  member.shared_ns,
  -- Their ready time, ns. (at least)
  member.ready_ns,
  -- Parallel sections.
  section.sections,
  -- Mean length of one, ns. (no bounds)
  section.mean_ns AS section_mean_ns,
  -- Sections in which all its threads ran; null: none. Only these can be compared with those of a
  -- pool of another size.
  widest.sections AS full_sections,
  -- Mean length of one of these, ns. (no bounds)
  widest.mean_ns AS full_section_mean_ns,
  -- Sum of their lengths, ns. (no bounds)
  section.wall_ns,
FROM member
JOIN machine ON machine.trace_id = member.trace_id
LEFT JOIN section
  ON section.trace_id = member.trace_id AND section.upid = member.upid
  AND section.pool = member.pool
LEFT JOIN by_width AS widest
  ON widest.trace_id = member.trace_id AND widest.upid = member.upid
  AND widest.pool = member.pool AND widest.workers = member.threads
ORDER BY member.trace_id, run_ns DESC, member.upid, member.pool;
