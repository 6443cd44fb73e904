-- Kinds of findings over all recordings, by their cost: what to fix first in the fleet.
-- p_machine: only this machine; null for all.
-- p_build: only this build; null for all.
SELECT
  -- Analyzer that found them.
  f.analyzer,
  -- Kind of finding.
  f.kind,
  -- Worst severity.
  list_extract(['critical', 'warning', 'info'], min(list_position(['critical', 'warning', 'info'], f.severity))::INTEGER) AS severity,
  -- Recordings with such a finding.
  count(DISTINCT f.owner) AS recordings,
  -- The same as a share of all recordings asked for, percent.
  100.0 * count(DISTINCT f.owner) / any_value(every.recordings) AS recordings_pct,
  -- Machines with such a finding.
  count(DISTINCT m.machine) AS machines,
  -- Builds with such a finding.
  count(DISTINCT m.build) AS builds,
  -- Findings.
  count(*) AS findings,
  -- Sum of their costs, ns; null if none is a time. Findings of different kinds may count the same time. (no bounds)
  sum(f.cost_ns)::BIGINT AS cost_ns,
  -- Highest cost of one, ns. (no bounds)
  max(f.cost_ns) AS worst_ns,
  -- Recording of the one with the highest cost.
  arg_max(f.owner, coalesce(f.cost_ns, 0)) AS worst_trace_id,
  -- Its title.
  arg_max(f.title, coalesce(f.cost_ns, 0)) AS worst_title,
FROM lake_finding AS f
JOIN manifest AS m ON m.trace_id = f.owner
CROSS JOIN (
  SELECT count(*) AS recordings
  FROM manifest
  WHERE (p_machine IS NULL OR machine = p_machine) AND (p_build IS NULL OR build = p_build)
) AS every
WHERE (p_machine IS NULL OR m.machine = p_machine) AND (p_build IS NULL OR m.build = p_build)
GROUP BY f.analyzer, f.kind
ORDER BY cost_ns DESC NULLS LAST, recordings DESC, f.analyzer, f.kind;
