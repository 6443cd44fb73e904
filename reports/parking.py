"""Parked CPUs over time, below the frames; frames and long slices by the number parked."""

from __future__ import annotations

from schedlens.report import binned, timeline
from schedlens.report.sections import Nothing, Section, View

HEADING = "Parking"
ORDER = 100
FIGURES = {
    "frames": "length of each frame",
    "parked": "parked CPUs at each moment",
    "thread_states": "what the busiest threads did",
}


def section(view: View) -> Section | Nothing:
    """Frames, the number of parked CPUs and what the threads did over time, and the tables."""
    each = view.ask_step("parking")
    if not any(row["parked_ns"] or row["soft_parked_ns"] for row in each.rows):
        known = any(row["unparked_ns"] for row in each.rows)
        return Nothing(
            "no CPU was parked" if known else "parking was not recorded; on Windows the power "
            "provider's events contain it"
        )  # fmt: skip
    span = view.spans()[0]
    frame_sql = view.call("frame_time", trace_id=view.trace_id, process=view.process)
    spells = timeline.parking(view, span)
    answers = []
    figures = [
        timeline.frames(view.rows(frame_sql), span, height=170),
        timeline.parked_count(spells, len({row["cpu"] for row in each.rows}), span),
    ]
    threads = binned.thread_states(view, span)
    if threads is not None:
        answers.append(threads[0])
        figures.append(threads[1])
    plan = view.ask_step("power_setting")
    missing = "" if plan.rows else " This recording has no power plan settings."
    return Section(
        "A parked CPU gets no work unless an affinity leaves no other choice. Look for frames or "
        "waits that grow with the number of parked CPUs, and compare the power plan settings if "
        f"they are recorded.{missing}",
        view.step_window(),
        tuple(figure for figure in figures if figure is not None),
        (
            view.ask_step("frame_parking", process=view.process).without("trace_id", "upid"),
            each,
            *((plan,) if plan.rows else ()),
            view.ask_step("thread_parking", process=view.process).fold(),
            view.ask_step("parked_count").fold(),
            *answers,
        ),
    )
