"""Sibling use of two recordings side by side."""

from __future__ import annotations

from schedlens.report.figures import Plot, bar, row_height, rows_across, short
from schedlens.report.sections import Answer, Figure, Nothing, Section, View

HEADING = "Siblings in two recordings"
ORDER = 78
FIGURES = {
    "recordings": "sibling use in two recordings",
}

_MEASURES = ("both of trace time", "both of busy core time", "shared of thread time", "load")
_MOST_PAIRS = 3


def section(view: View) -> Section | Nothing:
    """Each pair of recordings of the same thing, by all three denominators."""
    paired = view.rows(view.call("recording_pair"))
    if not paired:
        return Nothing("there are no two recordings of the same thing")
    labels = list(_MEASURES)
    answers: list[Answer] = []
    traces: list[Plot] = []
    for pair in paired[:_MOST_PAIRS]:
        base, second = pair["first_trace_id"], pair["second_trace_id"]
        answer = view.ask("smt_comparison", base=base, trace_id=second, process=view.process)
        if not answer.rows:
            continue
        answers.append(answer.without("first_trace_id", "second_trace_id"))
        for side in ("first", "second"):
            values = {row["measure"]: row[f"{side}_pct"] for row in answer.rows}
            name, shown = short(answer.rows[0][side]), [values.get(m) for m in labels]
            traces.append(bar(name, labels, shown, len(traces), unit="%"))
    if not answers:
        return Nothing("there are no two recordings of the same thing with SMT siblings")
    more = f" Shows {len(answers)} of {len(paired)} pairs." if len(answers) < len(paired) else ""
    caption = (
        "How much siblings were busy at once, by three denominators, and the load: each recording "
        f"and the one it is compared with.{more}"
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
        tuple(answers),
    )
