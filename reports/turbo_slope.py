"""Frequency against active cores, and of each thread by core type."""

from __future__ import annotations

from schedlens.report import binned
from schedlens.report.figures import axis, line
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Turbo: frequency against active cores"
ORDER = 106
FIGURES = {
    "frequency": "frequency by number of active cores",
    "frequencies": "mean frequency over time by core type",
    "cores_with_work": "cores with work at each moment",
}


def section(view: View) -> Section | Nothing:
    """Mean frequency at each number of active cores of the step in view."""
    answer = view.ask_step("frequency_active")
    if not answer.rows:
        return Nothing("no frequency changes were recorded")
    kinds = sorted({row["core_type"] for row in answer.rows}, key=str)
    traces = []
    for index, kind in enumerate(kinds):
        mine = [row for row in answer.rows if row["core_type"] == kind]
        x = [row["active_cores"] for row in mine]
        traces.append(line(kind or "unknown", x, [row["avg_khz"] / 1e6 for row in mine], index,
                           unit="GHz"))  # fmt: skip
    caption = "Mean frequency of the busy CPUs of each core type, by number of active cores."
    plot = {
        "data": traces,
        "layout": {"xaxis": axis("active cores"), "yaxis": axis("GHz")},
    }
    span = view.spans()[0]
    over_time = binned.frequencies(view, span)
    return Section(
        "Where the lines fall, every further active core slows the others. The first table has the "
        "slope and the quality of the fit.",
        view.step_window(),
        (Figure("frequency", caption, plot), *(figure for _, figure in over_time)),
        (
            view.ask_step("turbo_slope"),
            view.ask_step("thread_frequency_type", process=view.process),
            answer.fold(),
            *(shown for shown, _ in over_time),
        ),
    )
