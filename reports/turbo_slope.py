"""Frequency against active cores, and of each thread by core type."""

from __future__ import annotations

from schedlens.report import binned
from schedlens.report.figures import axis, line
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Turbo: frequency against active cores"
ORDER = 106


def section(view: View) -> Section | Nothing:
    """Mean frequency at each number of active cores of the step in view."""
    answer = view.ask_step("frequency_active")
    if not answer.rows:
        return Nothing("no changes of frequency are recorded")
    kinds = sorted({row["core_type"] for row in answer.rows}, key=str)
    traces = []
    for index, kind in enumerate(kinds):
        mine = [row for row in answer.rows if row["core_type"] == kind]
        x = [row["active_cores"] for row in mine]
        traces.append(line(kind or "unknown", x, [row["avg_khz"] / 1e6 for row in mine], index,
                           unit="GHz"))  # fmt: skip
    caption = "Mean frequency of busy CPUs of each core type at each number of cores with work."
    plot = {
        "data": traces,
        "layout": {"xaxis": axis("cores with work"), "yaxis": axis("GHz")},
    }
    span = view.rows(f"FROM analysis_span(p_trace_id := {view.trace_id})")[0]
    strips = binned.frequencies(view, span)
    return Section(
        "Where the lines fall every further core makes the others slower; the slope and how well a "
        "line fits stand in the first table.",
        view.step_window(),
        (Figure(caption, plot), *(figure for _, figure in strips)),
        (
            view.ask_step("turbo_slope"),
            view.ask_step("thread_frequency_type", process=view.process),
            answer.fold(),
            *(asked for asked, _ in strips),
        ),
    )
