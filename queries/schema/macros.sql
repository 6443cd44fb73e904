-- Scalar macros for lengths inside a window. DuckDB stores them in the database, so they can be
-- used in a shell too. least() and greatest() ignore NULL: an unknown end limits nothing.

CREATE MACRO overlap_ns(begin_ns, end_ns, from_ns, to_ns) AS
  least(end_ns, to_ns) - greatest(begin_ns, from_ns);
COMMENT ON MACRO overlap_ns IS
  'Length of the part of an interval that is inside a window, ns. Negative if they are disjoint; a NULL end limits nothing.';

CREATE MACRO clipped_ns(ts, dur, from_ns, to_ns) AS
  overlap_ns(ts, ts + dur, from_ns, to_ns);
COMMENT ON MACRO clipped_ns IS
  'Length of the part of a row (ts, dur) that is inside a window, ns. Negative if they are disjoint; a row with NULL dur lasts to the end of the window.';

CREATE MACRO is_group(name) AS
  regexp_matches(coalesce(name, ''), '^(cgroup|container|pod|service):.');
COMMENT ON MACRO is_group IS
  'Whether a name means a group of threads, such as service:nginx, where a process can be named.';

CREATE MACRO is_windows_source(source) AS source IN ('etw', 'xperf', 'wpa');
COMMENT ON MACRO is_windows_source IS
  'Whether a value of trace.source means that Windows scheduled the threads.';

CREATE MACRO is_tracepoint_source(source) AS source IN ('perf', 'trace_cmd', 'perf_script');
COMMENT ON MACRO is_tracepoint_source IS
  'Whether a value of trace.source means that the rows are tracepoints of Linux, with its numbers for priorities and states.';

CREATE MACRO kernel_bound_cpu(source, name) AS
  CASE
    WHEN NOT is_windows_source(source)
        AND regexp_full_match(name, 'kworker/[0-9]{1,5}:.*|[^/]+/[0-9]{1,5}')
        -- They invoke the callbacks of that CPU, and may run on any.
        AND NOT regexp_matches(name, '^rcuo')
      THEN regexp_extract(name, '/([0-9]+)', 1)::INTEGER
  END;
COMMENT ON MACRO kernel_bound_cpu IS
  'The logical CPU to which Linux binds its own threads of this name, which nobody can change: ksoftirqd/1, kworker/1:2. NULL: none. A program may name a thread like that as well: compare with where it ran, or with its affinity.';

CREATE MACRO is_kernel_affinity(source, name, cpus) AS
  coalesce(
    cpus = [kernel_bound_cpu(source, name)]
      OR NOT is_windows_source(source) AND starts_with(name, 'irq/'),
    false
  );
COMMENT ON MACRO is_kernel_affinity IS
  'Whether Linux itself gives a thread of this name these CPUs: kernel_bound_cpu, or those of its interrupt (irq/24-nvme0q1). Nobody reserved them for it.';

CREATE MACRO ends_wait(kind) AS kind <> 'wakeup_new';
COMMENT ON MACRO ends_wait IS
  'Whether a wakeup of this kind ends a wait, as all do but the first one of a new thread.';

CREATE MACRO nice_weight(nice) AS [
  88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
  9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
  1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
  110, 87, 70, 56, 45, 36, 29, 23, 18, 15
][least(greatest(nice, -20), 19) + 21];
COMMENT ON MACRO nice_weight IS
  'Weight of a nice value of Linux among the threads or groups around it (sched_prio_to_weight).';
