"""Which threads ran, approximately, by samples."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, thread_label, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Who ran, approximately"
ORDER = 16
FIGURES = {"threads": "approximate running time by thread"}

_MOST_BARS = 20


def section(view: View) -> Section | Nothing:
    """The threads with most samples, if no context switches were recorded."""
    if view.rows(f"SELECT 1 FROM context_switch WHERE trace_id = {view.trace_id} LIMIT 1"):
        return Nothing("context switches say exactly which threads ran")
    answer = view.ask_step("sampled_running", process=view.process)
    rows = answer.rows[:_MOST_BARS]
    if not rows:
        return Nothing("no samples were taken")
    labels = unique(thread_label(row) for row in rows)
    plot = rows_across(
        [bar("samples", labels, [row["samples"] for row in rows], 0, unit="samples")], "samples"
    )
    caption = f"Threads by samples; most: {rows[0]['samples']:,}, {rows[0]['thread']}."
    return Section(
        "Approximate: each sample stands for one sampling interval. What lasts shorter than that, "
        "and who waited for whom, is unknown: the recording has no context switches.",
        view.step_window(),
        (Figure("threads", caption, plot, height=row_height(len(rows))),),
        (answer,),
    )
