-- What the counters of each recording count, for the events that this table knows by name: L2 and L3
-- misses, stalls, execution ports, and top-down slots. The names are those of perf's event lists for
-- Intel and AMD cores, and of Windows' profile sources. Names depend on the vendor: the generic
-- cache-misses counts L3 misses on Intel and L2 misses on AMD.
-- No rows without: counter_delta.
-- p_trace_id: only this recording; null for all.
WITH
  vendor AS (
    SELECT
      trace_id,
      CASE
        WHEN cpu_model ILIKE '%intel%' THEN 'Intel'
        WHEN cpu_model ILIKE '%amd%' THEN 'AMD'
      END AS vendor,
    FROM trace
    WHERE p_trace_id IS NULL OR trace_id = p_trace_id
  ),
  counter AS (
    SELECT
      trace_id,
      counter,
      -- cpu_core/l2_rqsts.miss/ and l2_rqsts.miss:u are l2_rqsts.miss.
      regexp_replace(
        regexp_replace(lower(counter), '^cpu(_core|_atom)?/', ''), '[/:].*$', ''
      ) AS event,
    FROM (SELECT DISTINCT trace_id, counter FROM counter_delta)
    SEMI JOIN vendor USING (trace_id)
  ),
  known (vendor, event, meaning) AS (
    VALUES
      (NULL, 'cpu-cycles', 'cycles'),
      (NULL, 'cycles', 'cycles'),
      (NULL, 'totalcycles', 'cycles'),
      (NULL, 'unhaltedcorecycles', 'cycles'),
      (NULL, 'instructions', 'instructions'),
      (NULL, 'instructionretired', 'instructions'),
      (NULL, 'instructionsretired', 'instructions'),
      ('Intel', 'l2_rqsts.miss', 'l2_misses'),
      ('Intel', 'mem_load_retired.l2_miss', 'l2_misses'),
      ('Intel', 'longest_lat_cache.miss', 'l3_misses'),
      ('Intel', 'mem_load_retired.l3_miss', 'l3_misses'),
      ('Intel', 'cache-misses', 'l3_misses'),
      ('Intel', 'llc-load-misses', 'l3_misses'),
      ('Intel', 'llcmisses', 'l3_misses'),
      ('Intel', 'cycle_activity.stalls_l2_miss', 'stalls_l2_miss'),
      ('Intel', 'memory_activity.stalls_l2_miss', 'stalls_l2_miss'),
      ('Intel', 'cycle_activity.stalls_l3_miss', 'stalls_l3_miss'),
      ('Intel', 'memory_activity.stalls_l3_miss', 'stalls_l3_miss'),
      ('Intel', 'topdown-retiring', 'retiring'),
      ('Intel', 'topdown-bad-spec', 'bad_speculation'),
      ('Intel', 'topdown-fe-bound', 'frontend'),
      ('Intel', 'topdown-be-bound', 'backend'),
      ('AMD', 'l2_cache_req_stat.ic_dc_miss_in_l2', 'l2_misses'),
      ('AMD', 'cache-misses', 'l2_misses'),
      ('AMD', 'ls_dmnd_fills_from_sys.mem_io_local', 'l3_misses'),
      ('AMD', 'ls_dmnd_fills_from_sys.dram_io_near', 'l3_misses'),
      ('AMD', 'ex_ret_ops', 'retired_ops'),
      ('AMD', 'de_src_op_disp.all', 'dispatched_ops'),
      ('AMD', 'de_no_dispatch_per_slot.no_ops_from_frontend', 'frontend'),
      ('AMD', 'de_no_dispatch_per_slot.backend_stalls', 'backend')
  ),
  found AS (
    SELECT c.trace_id, c.counter, known.meaning
    FROM counter AS c
    JOIN vendor ON vendor.trace_id = c.trace_id
    JOIN known
      ON known.event = c.event AND (known.vendor IS NULL OR known.vendor = vendor.vendor)
    UNION
    SELECT
      c.trace_id,
      c.counter,
      regexp_extract(c.event, '^uops_(?:dispatched|executed)(?:_port)?\.(port_[0-9_]+)$', 1),
    FROM counter AS c
    JOIN vendor ON vendor.trace_id = c.trace_id AND vendor.vendor = 'Intel'
    WHERE regexp_matches(c.event, '^uops_(dispatched|executed)(_port)?\.port_[0-9_]+$')
  )
SELECT
  -- Recording.
  trace_id,
  -- Counter as recorded.
  counter,
  -- cycles, instructions, l2_misses, l3_misses, stalls_l2_miss, stalls_l3_miss (cycles without
  -- execution while a load misses that cache), port_N (micro-operations on a port), retiring,
  -- bad_speculation, frontend, backend (slots), or retired_ops and dispatched_ops.
  meaning,
FROM found
ORDER BY trace_id, meaning, counter;
