"""Busy CPUs during each frame, with the capacity lines."""

from __future__ import annotations

from schedlens.report import binned, timeline
from schedlens.report.sections import Nothing, Section, View

HEADING = "Concurrency by frame"
ORDER = 96
FIGURES = {
    "frames": "length of each frame",
    "frame_load": "busy CPUs during each frame",
}


def section(view: View) -> Section | Nothing:
    """Mean busy CPUs of the machine and of the presenting process over the frames."""
    answer = view.ask_step("frame_concurrency", process=view.process)
    if not answer.rows:
        return Nothing("no frames were recorded")
    span = view.spans()[0]
    # Frames of several processes overlap: draw those of the process with the most.
    upids = [row["upid"] for row in answer.rows]
    most = max(sorted(set(upids)), key=upids.count)
    drawn = [row for row in answer.rows if row["upid"] == most]
    timed = view.rows(view.call("frame_time", trace_id=view.trace_id, process=view.process))
    figures = (
        timeline.frames(timed, span, height=170),
        binned.frame_load(view, drawn, span),
    )
    return Section(
        "Above the line P, work needs E cores; above P+E, it needs SMT siblings. A frame far below "
        "the lines waits for single threads, and more workers cannot shorten it.",
        view.step_window(),
        tuple(figure for figure in figures if figure is not None),
        (answer.fold(), view.ask_step("capacity_line")),
    )
