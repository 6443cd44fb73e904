"""What recording itself cost the workload."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Cost of recording"
ORDER = 210
FIGURES = {
    "cost": "throughput lost to the recorder by step",
}

_MOST_BARS = 24


def section(view: View) -> Section | Nothing:
    """Steps that were measured with and without the recorder."""
    answer = view.ask("recorder_cost")
    rows = [row for row in answer.rows if row["cost_pct"] is not None]
    if not rows:
        return Nothing("no step was measured both with and without the recorder")
    costs = sorted(row["cost_pct"] for row in rows)
    drawn = sorted(rows, key=lambda row: -row["cost_pct"])[:_MOST_BARS]
    labels = unique(short(row["step"], 40) for row in drawn)
    plot = rows_across(
        [bar("cost", labels, [row["cost_pct"] for row in drawn], 3, unit="%")],
        "throughput lost, percent",
    )
    plot["layout"]["xaxis"]["rangemode"] = "normal"
    caption = (
        f"Throughput lost to the recorder in {len(drawn)} of {len(rows)} steps: from "
        f"{costs[0]:.1f} % to {costs[-1]:.1f} %, median {costs[len(costs) // 2]:.1f} %. Below 0, "
        "the run with the recorder was faster by chance."
    )
    return Section(
        "Do not trust differences between steps that are smaller than these.",
        "Each first repeat, against the same plan without a recording.",
        (Figure("cost", caption, plot, height=row_height(len(drawn), each=18)),),
        (answer.without("trace_id").fold(),),
    )
