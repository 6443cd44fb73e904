"""Whether the system's busy figure shows how much capacity is left.

A core with one busy SMT sibling reads as half busy, whatever it leaves to the other. Judged is the
distance between the work done, in percent of what the cores could do (the lower bound), and what
the system reports: info from 10 points, a warning from 20, since a plan for twice the load would
fail there. Left out are steps from which a hypervisor took more than 1 %, and steps whose busy
figure is more than 5 points away from the trace's own: it is counted in ticks over the whole step,
so in a short step, or on a machine that loses ticks, it does not describe the window.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Conclusion, Finding, Metric, Outcome, Scope
from schedlens.output.wording import between, count, percent, recordings

NEEDS = ("snapshots", "switches")
METRIC: Metric = "measured"
KINDS = ("busy_figure_misleads",)

INFO_POINTS = 10.0
WARNING_POINTS = 20.0
STOLEN_PCT = 1.0
SAME_POINTS = 5.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The step in which the report misleads most, or a conclusion."""
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
    apart = [row for row in steady if row["apart"] >= INFO_POINTS]
    if not apart:
        conclusion: Conclusion = "not_applicable"
        if not rows:
            reason = "No step has snapshots at both ends, so the busy figure is unknown."
        elif kept and not steady:
            reason = (
                "In every step the system's busy figure is more than "
                f"{SAME_POINTS:.0f} points away from the trace's (short steps, or lost ticks)."
            )
        elif not steady:
            reason = "A hypervisor took CPUs away in every step."
        else:
            conclusion = "clean"
            left_out = len(rows) - len(steady)
            reason = (
                f"The busy figure is within {INFO_POINTS:.0f} points of the work done in "
                f"{count(len(steady), 'recording')}"
                + (f"; {left_out} left out." if left_out else ".")
            )
        yield Outcome(conclusion, reason)
        return
    row = apart[0]
    low, high = row["work_low_pct"], row["work_high_pct"]
    work = between(percent(low), percent(high))
    yield Finding(
        kind="busy_figure_misleads",
        severity="warning" if row["apart"] >= WARNING_POINTS else "info",
        title=(
            f"System reports {percent(row['reported_busy_pct'])} busy; cores do {work} of "
            "their work"
        ),
        detail=(
            f"{recordings(row['label'], len(apart) - 1)}the system reports "
            f"{percent(row['reported_busy_pct'])} busy while the cores do {work} of the work they "
            f"can (yield {row['yield_basis']})."
        ),
        advice=(
            "Plan capacity by cores and the measured yield (`FROM smt_yield`), not by the busy "
            "figure: it counts idle SMT siblings of busy cores as free."
        ),
        trace_id=row["trace_id"],
        cost_pct=row["apart"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if high - low < 0.1 else "range",
        cost_of="of the machine's work",
        evidence_sql="FROM reported_vs_real ORDER BY work_low_pct - reported_busy_pct DESC",
        counter_evidence_sql="FROM smt_yield",
    )
