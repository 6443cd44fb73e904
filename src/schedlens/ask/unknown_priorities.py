"""How much of the running time has no recorded priority, so that no analyzer can judge it."""

from __future__ import annotations

from schedlens.ask.findings import Scope
from schedlens.output.wording import percent

# Less is no news.
_LEAST_PCT = 0.1

# Where switches show priorities, one that only PERF_RECORD_SWITCH recorded does not.
_UNKNOWN = """
SELECT
  100.0 * sum(s.ns) FILTER (WHERE s.priority IS NULL) / nullif(sum(s.ns), 0) AS pct
FROM (
  SELECT trace_id, priority, clipped_ns(ts, dur, start_ns, end_ns) AS ns
  FROM sched_slice
  JOIN analysis_span AS w USING (trace_id)
  WHERE NOT is_idle AND ts < end_ns AND ts + dur > start_ns
) AS s
WHERE s.trace_id IN (FROM recorded_kind SELECT trace_id WHERE kind = 'priorities' AND recorded)
"""


def note(scope: Scope) -> str:
    """A sentence to add to the conclusion that all is well; empty if all priorities are known."""
    pct = scope.kept(_UNKNOWN)[0]["pct"]
    if pct is None or pct < _LEAST_PCT:
        return ""
    return (
        f" {percent(pct)} of the running time has no recorded priority: problems there would not "
        "show."
    )
