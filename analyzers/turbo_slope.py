"""Whether the frequency falls with every further active core.

Told for each core type if a line through its intervals between changes of frequency falls by at
least 1 % of the mean frequency for each further active core and fits (r squared of 50 % or more);
fewer than 10 intervals are refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import elsewhere, percent

NEEDS = ("frequencies",)
METRIC: Metric = "measured"

TOLD_PCT = 1.0
FIT_PCT = 50.0


def judge(scope: Scope) -> Iterable[Finding]:
    """The steepest slope, or what was checked."""
    rows = scope.rows(
        "SELECT t.*, 100 * khz_per_core / avg_khz AS pct, trace.label "
        "FROM turbo_slope AS t JOIN trace USING (trace_id) ORDER BY pct NULLS LAST, trace_id"
    )
    steep = [
        row
        for row in rows
        if row["pct"] is not None
        and row["pct"] <= -TOLD_PCT
        and 100 * (row["fit"] or 0.0) >= FIT_PCT
    ]
    if not steep:
        yield Finding(
            analyzer="turbo_slope",
            severity="checked",
            title=(
                f"No frequency falls by {percent(TOLD_PCT)} with a further active core"
                if any(row["khz_per_core"] is not None for row in rows)
                else "Too few changes of frequency are recorded to say how turbo is shared"
            ),
            evidence_sql="FROM turbo_slope",
        )
        return
    row = steep[0]
    others = len({other["trace_id"] for other in steep} - {row["trace_id"]})
    kind = f"{row['core_type']} cores" if row["core_type"] else "cores of unknown type"
    yield Finding(
        analyzer="turbo_slope",
        severity="info",
        title=(
            f"Each further active core costs {kind} {-row['khz_per_core'] / 1000:.0f} MHz "
            f"({percent(-row['pct'])}) of {row['avg_khz'] / 1e6:.2f} GHz ({row['label']})"
            f"{elsewhere(others)}"
        ),
        trace_id=row["trace_id"],
        advice="Count this in before adding workers: the others get slower with each.",
        evidence_sql=f"FROM frequency_active(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM frequency(p_trace_id := {row['trace_id']})",
    )
