"""How much the siblings of a core were busy together.

Sharing is time beside each other, not yet harm: it is told from 10 % of the time in which cores
were busy (below that it hardly moves a total), and judged as harm only where it could have been
avoided (avoidable_sharing) or where a second thread costs (scaling_curve).
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, duration, elsewhere, percent

NEEDS = ("switches", "all_threads", "cores")
METRIC: Metric = "running"

TOLD_PCT = 10.0

_SHARED = """
SELECT t.*, trace.label, w.start_ns, w.end_ns
FROM sibling_overlap_total AS t
JOIN analysis_span AS w USING (trace_id)
JOIN trace USING (trace_id)
WHERE cores > 0
ORDER BY shared_of_busy_pct DESC NULLS LAST, trace_id
"""


def judge(scope: Scope) -> Iterable[Finding]:
    """The recording whose cores were shared most, or what was checked."""
    rows = scope.rows(_SHARED)
    shared = [row for row in rows if (row["shared_of_busy_pct"] or 0) >= TOLD_PCT]
    if not shared:
        yield Finding(
            analyzer="sibling_overlap",
            severity="checked",
            title=(
                f"In {count(len(rows), 'recording')} no cores were shared for "
                f"{percent(TOLD_PCT)} of their busy time"
                if rows
                else "No core has two logical CPUs online, or which ones share a core is unknown"
            ),
            evidence_sql="FROM sibling_overlap",
        )
        return
    row = shared[0]
    share = row["shared_of_busy_pct"]
    yield Finding(
        analyzer="sibling_overlap",
        severity="info",
        title=(
            f"More than one sibling was busy for {percent(share)} of the time in which cores were "
            f"busy, {duration(row['both_ns'])} of core time ({row['label']})"
            f"{elsewhere(len(shared) - 1)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=row["both_ns"],
        cost_pct=share,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        advice=(
            "See who shared with whom (sibling_pair), whether whole cores stood idle meanwhile "
            "(avoidable_sharing) and what a second thread gains for this work (smt_yield)."
        ),
        evidence_sql=f"FROM sibling_overlap(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM sibling_overlap_total(p_trace_id := {row['trace_id']})",
    )
