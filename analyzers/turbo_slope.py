"""Whether the frequency falls with every further active core.

It is info for each core type if a line through its intervals between changes of frequency falls by
at least 1 % of the mean frequency for each further active core and fits (r squared of 50 % or
more); fewer than 10 intervals are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import percent, recordings

NEEDS = ("frequencies",)
METRIC: Metric = "measured"
KINDS = ("frequency_falls",)

INFO_PCT = 1.0
FIT_PCT = 50.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The steepest slope, or a conclusion."""
    rows = scope.rows(
        "SELECT t.*, 100 * khz_per_core / avg_khz AS pct, trace.label "
        "FROM turbo_slope AS t JOIN trace USING (trace_id) ORDER BY pct NULLS LAST, trace_id"
    )
    steep = [
        row
        for row in rows
        if row["pct"] is not None
        and row["pct"] <= -INFO_PCT
        and 100 * (row["fit"] or 0.0) >= FIT_PCT
    ]
    if not steep:
        yield (
            clean(f"No frequency falls by {percent(INFO_PCT)} with each further active core.")
            if any(row["khz_per_core"] is not None for row in rows)
            else not_applicable("Too few changes of frequency are recorded to fit a slope.")
        )
        return
    row = steep[0]
    others = len({other["trace_id"] for other in steep} - {row["trace_id"]})
    kind = f"{row['core_type']} cores" if row["core_type"] else "cores of unknown type"
    yield Finding(
        kind="frequency_falls",
        severity="info",
        title=(
            f"Each active core costs {-row['khz_per_core'] / 1000:.3g} MHz ({percent(-row['pct'])})"
        ),
        detail=(
            f"{recordings(row['label'], others)}each further active core lowers the frequency of "
            f"{kind} by {-row['khz_per_core'] / 1000:.3g} MHz ({percent(-row['pct'])} of "
            f"{row['avg_khz'] / 1e6:.3g} GHz)."
        ),
        advice=(
            "Include this slope before you add workers: each one slows the others (`FROM "
            "turbo_slope`)."
        ),
        trace_id=row["trace_id"],
        evidence_sql=f"FROM frequency_active(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM frequency(p_trace_id := {row['trace_id']})",
    )
