-- How far each recording can be trusted: what it contains, and what was lost, repaired or is
-- unknown in the window. Recorders start and stop their CPUs one after another, so the edges
-- outside the window are counted separately.
-- p_trace_id: only this recording; null for all.
-- p_from_ns: start of the window; null for the default one.
-- p_to_ns: end of the window; null for the default one.
WITH
  span AS (FROM analysis_span(p_trace_id, p_from_ns, p_to_ns)),
  switched AS (
    SELECT
      trace_id,
      count(*) FILTER (WHERE source = 'switch') AS switches,
      count(*) FILTER (WHERE source = 'switch_event' AND ts BETWEEN start_ns AND end_ns)
        AS repaired_switches,
      count(*) FILTER (WHERE source = 'switch_event' AND NOT ts BETWEEN start_ns AND end_ns)
        AS edge_repaired_switches,
    FROM context_switch
    JOIN span USING (trace_id)
    GROUP BY trace_id
  ),
  switched_in AS (
    SELECT
      trace_id,
      count(*) FILTER (WHERE ts BETWEEN start_ns AND end_ns) AS inner_entries,
      count(*) FILTER (WHERE NOT ts BETWEEN start_ns AND end_ns) AS edge_entries,
    FROM sched_slice
    JOIN span USING (trace_id)
    -- Not the first slice of a thread, of which nothing is missing.
    WHERE NOT is_idle AND NOT left_censored AND prev_cpu IS NOT NULL
      AND ready_ns IS NULL AND wait_ns IS NULL
    GROUP BY trace_id
  ),
  second_kind AS (
    SELECT trace_id, sum(count) > 0 AS has_switch_records
    FROM record_count
    WHERE record LIKE 'PERF_RECORD_SWITCH%'
    GROUP BY trace_id
  ),
  woken AS (
    SELECT
      trace_id,
      count(*) AS wakings,
      count(*) FILTER (WHERE effective) AS effective_wakings,
    FROM wakeup
    JOIN span USING (trace_id)
    GROUP BY trace_id
  ),
  placed AS (
    SELECT
      trace_id,
      signalled_by,
      events,
      -- A gap of a known CPU that has no bound reaches to that end of the recording.
      CASE
        WHEN loss.cpu IS NOT NULL OR (loss.start_ns IS NOT NULL AND loss.end_ns IS NOT NULL)
          THEN greatest(0, overlap_ns(
            coalesce(loss.start_ns, span.start_ns), coalesce(loss.end_ns, span.end_ns),
            span.start_ns, span.end_ns
          ))
      END AS ns,
    FROM loss
    JOIN span USING (trace_id)
  ),
  -- What a scrubbed recording does not contain was not lost.
  left_out AS (
    SELECT trace_id, sum(ns)::BIGINT AS ns
    FROM placed
    WHERE signalled_by = 'left_out'
    GROUP BY trace_id
  ),
  gap AS (
    SELECT
      trace_id,
      count(*) FILTER (WHERE is_inner) AS gaps,
      count(*) FILTER (WHERE is_inner AND signalled_by = 'chain_break') AS chain_breaks,
      sum(events) FILTER (WHERE is_inner)::BIGINT AS gap_events,
      sum(ns) FILTER (WHERE is_inner)::BIGINT AS gap_ns,
      count(*) FILTER (WHERE NOT is_inner) AS edge_gaps,
      sum(ns) FILTER (WHERE NOT is_inner)::BIGINT AS edge_ns,
    FROM (
      -- If the position of a gap is unknown, it may be in the window.
      SELECT
        *,
        signalled_by NOT IN ('stream_start', 'stream_end', 'overwritten')
          AND (ns IS NULL OR ns > 0) AS is_inner,
      FROM placed
      WHERE signalled_by <> 'left_out'
    )
    GROUP BY trace_id
  ),
  trouble AS (
    SELECT trace_id, count(*) AS problems, sum(count)::BIGINT AS problem_count
    FROM problem
    JOIN span USING (trace_id)
    GROUP BY trace_id
  ),
  cpus AS (
    SELECT
      trace_id,
      sum(unknown_ns)::BIGINT AS unknown_cpu_ns,
      100.0 * sum(unknown_ns)
        / nullif(sum(thread_ns + interrupt_ns + idle_ns + unknown_ns), 0) AS unknown_cpu_pct,
    FROM cpu_time(p_trace_id, p_from_ns, p_to_ns)
    GROUP BY trace_id
  ),
  -- By thread first: to count the threads among the rows takes longer.
  seen AS (
    SELECT trace_id, utid, state, max(clipped_ns(ts, dur, start_ns, end_ns)) AS longest_ns,
    FROM thread_state
    JOIN span USING (trace_id)
    WHERE state IN ('running', 'unknown') AND ts <= end_ns AND ts + dur >= start_ns
    GROUP BY trace_id, utid, state
  ),
  alive AS (
    SELECT
      trace_id,
      count(*) FILTER (WHERE state = 'running') AS threads_ran,
      count(*) FILTER (WHERE state = 'unknown' AND longest_ns > 0) AS threads_unknown,
    FROM seen
    GROUP BY trace_id
  ),
  stacked AS (
    SELECT trace_id, 100.0 * sum(with_stack) / sum(records) AS with_stack_pct
    FROM stack_coverage(p_trace_id)
    GROUP BY trace_id
  )
SELECT
  -- Recording.
  trace.trace_id,
  -- Name of the step or of the file.
  trace.label,
  -- perf, perf_script, trace_cmd, perfetto, etw, xperf or wpa.
  trace.source,
  -- Length of the recording, ns. (at least)
  (trace.duration_ns - coalesce(trace.first_ns, 0))::BIGINT AS recorded_ns,
  -- Context switches recorded by the scheduler's own event.
  coalesce(switched.switches, 0) AS switches,
  -- Whether PERF_RECORD_SWITCH was recorded too; null if not from perf.
  CASE
    WHEN trace.source IN ('perf', 'perf_script') THEN coalesce(second_kind.has_switch_records, FALSE)
  END AS has_switch_records,
  -- Switches in the window taken from PERF_RECORD_SWITCH because sched_switch missed them; no data
  -- was lost.
  coalesce(switched.repaired_switches, 0) AS repaired_switches,
  -- The same before and after the window, where often only PERF_RECORD_SWITCH is recorded.
  coalesce(switched.edge_repaired_switches, 0) AS edge_repaired_switches,
  -- Slices that start in the window and whose ready time is unknown.
  coalesce(switched_in.inner_entries, 0) AS unexplained_entries,
  -- The same before and after the window.
  coalesce(switched_in.edge_entries, 0) AS edge_unexplained_entries,
  -- Wakeups recorded.
  coalesce(woken.wakings, 0) AS wakings,
  -- Wakeups that started a ready period.
  coalesce(woken.effective_wakings, 0) AS effective_wakings,
  -- Records that the recorder reports as lost; null if it does not report this.
  trace.events_lost,
  -- Buffers that the recorder reports as lost; null if it does not report this.
  trace.buffers_lost,
  -- Gaps in the window: places where records are known to be missing.
  coalesce(gap.gaps, 0) AS gaps,
  -- Gaps that are breaks in the chain of switches and could not be repaired.
  coalesce(gap.chain_breaks, 0) AS chain_breaks,
  -- Records lost in the gaps whose number of lost records is known; null if there is none.
  gap.gap_events,
  -- Length of the gaps in the window, summed over CPUs, ns; null if no gap has both ends known.
  -- (no bounds)
  CASE WHEN coalesce(gap.gaps, 0) = 0 THEN 0 ELSE gap.gap_ns END AS gap_ns,
  -- Gaps at the edges: outside the window, or a CPU whose records start after the recording or end
  -- before it does.
  coalesce(gap.edge_gaps, 0) AS edge_gaps,
  -- Length of edge gaps in the window, summed over CPUs, ns. (no bounds)
  coalesce(gap.edge_ns, 0)::BIGINT AS edge_ns,
  -- Time in the window that a scrubbed recording leaves out, summed over CPUs, ns. (exact)
  coalesce(left_out.ns, 0)::BIGINT AS left_out_ns,
  -- Kinds of problems found while reading.
  coalesce(trouble.problems, 0) AS problems,
  -- Occurrences, all kinds together.
  coalesce(trouble.problem_count, 0) AS problem_count,
  -- CPU time in the window whose state is unknown, ns. (bound)
  cpus.unknown_cpu_ns,
  -- unknown_cpu_ns as a share of the time of all online logical CPUs, percent; null without any.
  -- (bound)
  cpus.unknown_cpu_pct,
  -- Threads that ran in the window.
  coalesce(alive.threads_ran, 0) AS threads_ran,
  -- Threads whose state is unknown for part of the window.
  coalesce(alive.threads_unknown, 0) AS threads_unknown,
  -- Switches, wakeups and samples that have a stack, percent; null without stacks. (no bounds)
  stacked.with_stack_pct,
FROM trace
JOIN span USING (trace_id)
LEFT JOIN switched USING (trace_id)
LEFT JOIN second_kind USING (trace_id)
LEFT JOIN switched_in USING (trace_id)
LEFT JOIN woken USING (trace_id)
LEFT JOIN left_out USING (trace_id)
LEFT JOIN gap USING (trace_id)
LEFT JOIN trouble USING (trace_id)
LEFT JOIN cpus USING (trace_id)
LEFT JOIN alive USING (trace_id)
LEFT JOIN stacked USING (trace_id)
ORDER BY trace.trace_id;
