"""Sibling use of two recordings side by side."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, short
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Siblings in two recordings"
ORDER = 78
FIGURES = {
    "recordings": "sibling use in two recordings",
}

_MEASURES = ("both of trace time", "both of busy core time", "shared of thread time", "load")
_MOST_RECORDINGS = 6


def section(view: View) -> Section | Nothing:
    """Each recording against the first, by all three denominators."""
    answer = view.ask("smt_comparison", process=view.process)
    if not answer.rows:
        return Nothing("there are fewer than two recordings with SMT siblings")
    labels = list(_MEASURES)
    first = {row["measure"]: row["first_pct"] for row in answer.rows}
    traces = [bar(short(answer.rows[0]["first"]), labels, [first.get(m) for m in labels], 0,
                  unit="%")]  # fmt: skip
    seconds = list(dict.fromkeys(row["second_trace_id"] for row in answer.rows))
    for index, number in enumerate(seconds[:_MOST_RECORDINGS], start=1):
        mine = {row["measure"]: row for row in answer.rows if row["second_trace_id"] == number}
        name = short(next(iter(mine.values()))["second"])
        values = [mine[m]["second_pct"] if m in mine else None for m in labels]
        traces.append(bar(name, labels, values, index, unit="%"))
    caption = (
        "How much siblings were busy at once, by three denominators, and the load: the first "
        f"recording and {min(len(seconds), _MOST_RECORDINGS)} of {len(seconds)} others."
    )
    return Section(
        "Compare by busy core time, which idle time does not dilute, and check the loads: with "
        "less work there is less sharing.",
        view.all_windows(),
        (
            Figure(
                "recordings",
                caption,
                rows_across(traces, "percent", stacked=False),
                height=row_height(len(labels) * len(traces)),
            ),
        ),
        (answer.without("first_trace_id", "second_trace_id"),),
    )
