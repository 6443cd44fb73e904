"""Whether the system's busy figure says how much room is left.

A core of which one sibling is busy reads as half busy, whatever it leaves to the other. Judged is
the distance between the work done, in percent of what the cores could do (the lower bound), and
what the system reports: told from 10 points, a warning from 20, since a plan for twice the load
would fail there. Left out are steps from which a hypervisor took more than 1 %, and steps whose
busy figure is more than 5 points away from the trace's own: it is counted in ticks over the whole
step, so a short step, or a machine that loses ticks, makes it say nothing about the window.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, elsewhere, percent

NEEDS = ("snapshots", "switches")
METRIC: Metric = "measured"

TOLD_POINTS = 10.0
WARNING_POINTS = 20.0
STOLEN_PCT = 1.0
SAME_POINTS = 5.0


def judge(scope: Scope) -> Iterable[Finding]:
    """The step in which the report misleads most, or what was checked."""
    rows = scope.rows(
        "SELECT r.*, trace.label, work_low_pct - reported_busy_pct AS apart, w.start_ns, w.end_ns "
        "FROM reported_vs_real AS r JOIN trace USING (trace_id) "
        "JOIN analysis_span AS w USING (trace_id) "
        "WHERE reported_busy_pct IS NOT NULL AND work_low_pct IS NOT NULL "
        "ORDER BY apart DESC, trace_id"
    )
    kept = [row for row in rows if (row["stolen_pct"] or 0) <= STOLEN_PCT]
    steady = [
        row
        for row in kept
        if row["traced_busy_pct"] is not None
        and abs(row["reported_busy_pct"] - row["traced_busy_pct"]) <= SAME_POINTS
    ]
    apart = [row for row in steady if row["apart"] >= TOLD_POINTS]
    if not apart:
        if not rows:
            title = "What the system reports is unknown: no snapshots at the edges of a step"
        elif kept and not steady:
            title = (
                "The system's busy figure is not judged: in every step it is more than "
                f"{SAME_POINTS:.0f} points away from the trace's (short steps, or lost ticks)"
            )
        elif not steady:
            title = "A hypervisor took CPUs away in every step: the system's figure is not judged"
        else:
            title = (
                f"What the system reports is within {TOLD_POINTS:.0f} points of the work done in "
                f"{count(len(steady), 'recording')}"
                + (f", {len(rows) - len(steady)} not judged" if len(steady) < len(rows) else "")
            )
        yield Finding(
            analyzer="reported_vs_real",
            severity="checked",
            title=title,
            evidence_sql="FROM reported_vs_real",
        )
        return
    row = apart[0]
    low, high = row["work_low_pct"], row["work_high_pct"]
    work = percent(low) if high - low < 0.1 else f"{percent(low)} to {percent(high)}"
    yield Finding(
        analyzer="reported_vs_real",
        severity="warning" if row["apart"] >= WARNING_POINTS else "info",
        title=(
            f"The system reports {percent(row['reported_busy_pct'])} busy while the cores do "
            f"{work} of the work they can ({row['label']}, yield {row['yield_basis']})"
            f"{elsewhere(len(apart) - 1)}"
        ),
        trace_id=row["trace_id"],
        cost_pct=row["apart"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if high - low < 0.1 else "range",
        advice=(
            "Plan capacity by cores and the measured yield (smt_yield), not by the busy figure: "
            "what it shows as free are second threads of busy cores."
        ),
        evidence_sql="FROM reported_vs_real ORDER BY work_low_pct - reported_busy_pct DESC",
        counter_evidence_sql="FROM smt_yield",
    )
