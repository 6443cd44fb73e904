-- What each recording says about its machine and software, as pairs of key and value: what the
-- recorder wrote, every recorded setting, and the topology at the start.
-- p_trace_id: only this recording; null for all.
WITH
  first AS (
    SELECT *
    FROM topology(p_trace_id)
    QUALIFY row_number() OVER (PARTITION BY trace_id, cpu ORDER BY from_ns) = 1
  ),
  core AS (
    SELECT trace_id, core_type, core, count(*) AS width
    FROM first
    WHERE online IS DISTINCT FROM FALSE AND core IS NOT NULL
    GROUP BY trace_id, core_type, core
  ),
  fact AS (
    SELECT trace_id, 'machine' AS topic, 'cpu_model' AS key, cpu_model AS value FROM trace
    UNION ALL
    SELECT trace_id, 'machine', 'host', host FROM trace
    UNION ALL
    SELECT trace_id, 'software', 'os', os FROM trace
    UNION ALL
    SELECT trace_id, 'recorder', 'source', source FROM trace
    UNION ALL
    SELECT trace_id, 'recorder', 'clock_name', clock_name FROM trace
    UNION ALL
    SELECT trace_id, 'topology', 'online_cpus', count(*)::VARCHAR
    FROM first
    WHERE online IS DISTINCT FROM FALSE
    GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'topology', 'cores_' || coalesce(core_type, 'unknown'), count(*)::VARCHAR
    FROM core
    GROUP BY trace_id, core_type
    UNION ALL
    SELECT trace_id, 'topology', 'cpus_per_core_' || coalesce(core_type, 'unknown'),
      max(width)::VARCHAR
    FROM core
    GROUP BY trace_id, core_type
    UNION ALL
    SELECT trace_id, 'topology', 'llc_groups', count(DISTINCT llc)::VARCHAR
    FROM first
    WHERE llc IS NOT NULL
    GROUP BY trace_id
    UNION ALL
    SELECT trace_id, 'topology', 'packages', count(DISTINCT package)::VARCHAR
    FROM first
    WHERE package IS NOT NULL
    GROUP BY trace_id
    UNION ALL
    SELECT
      trace_id,
      CASE
        WHEN regexp_matches(
          lower(key),
          'park|power|plan|governor|boost|turbo|epp|perf_|pstate|freq|cstate|idle|hetero|thermal'
        ) THEN 'power'
        WHEN regexp_matches(lower(key), 'bios|microcode|firmware|board|vendor|product')
          THEN 'machine'
        WHEN regexp_matches(lower(key), 'build|version|release|kernel|scheduler|preempt|hz')
          THEN 'software'
        ELSE 'setting'
      END,
      key,
      value,
    FROM machine_setting
  )
SELECT
  -- Recording.
  trace_id,
  -- What it is about: machine, software, recorder, topology, power or setting.
  topic,
  -- Its name.
  key,
  -- Its value; null if it was queried and not found.
  value,
FROM fact
WHERE p_trace_id IS NULL OR trace_id = p_trace_id
ORDER BY trace_id, topic, key, value;
