"""Parked CPUs over time, under the frames; frames and long stays by the number parked."""

from __future__ import annotations

from typing import Any

from schedlens.figures import axis, line, ms
from schedlens.sections import Figure, Nothing, Section, View

HEADING = "Parking"
ORDER = 100

_MOST_POINTS = 4_000


def section(view: View) -> Section | Nothing:
    """The number of parked CPUs over time with the frame times above, and the tables."""
    each = view.ask_step("parking")
    if not any(row["parked_ns"] or row["soft_parked_ns"] for row in each.rows):
        known = any(row["unparked_ns"] for row in each.rows)
        return Nothing(
            "no CPU was parked" if known else "parking is not recorded; on Windows the power "
            "provider's events hold it"
        )  # fmt: skip
    level = view.ask_step("parked_count")
    frames = [
        row
        for row in view.ask_step("frame_time", process=view.process).rows
        if row["dur_ns"] is not None
    ]
    most = max(row["parked"] + row["soft_parked"] for row in level.rows)
    with_frames = f", and the length of {len(frames)} frames above" if frames else ""
    caption = f"Logical CPUs parked over time, {most} at most{with_frames}."
    return Section(
        "A parked CPU is given no work unless an affinity leaves no other place. Look for frames "
        "or waits that grow with the number parked; the values of the power plan stand beside it "
        "where they are recorded.",
        view.step_window(),
        (Figure(caption, _band(level.rows, frames), height=420),),
        (
            view.ask_step("frame_parking", process=view.process),
            each,
            view.ask_step("thread_parking", process=view.process).fold(),
            view.ask_step("power_setting"),
            level.fold(),
        ),
    )


def _band(levels: list[dict[str, Any]], frames: list[dict[str, Any]]) -> dict[str, Any]:
    step = max(1, len(levels) // _MOST_POINTS)
    kept = levels[::step]
    x = [row["ts"] / 1e9 for row in kept] + [(levels[-1]["ts"] + levels[-1]["dur"]) / 1e9]
    traces = []
    for column, name, index in (("parked", "parked", 3), ("soft_parked", "soft-parked", 5)):
        if column == "soft_parked" and not any(row[column] for row in levels):
            continue
        band = line(name, x, [row[column] for row in [*kept, levels[-1]]], index, unit="CPUs")
        band |= {"mode": "lines", "fill": "tozeroy", "line": {**band["line"], "shape": "hv"}}
        traces.append(band)
    layout: dict[str, Any] = {"xaxis": axis("s"), "yaxis": axis("parked", rangemode="tozero")}
    if frames:
        every = max(1, len(frames) // _MOST_POINTS)
        shown = [row for number, row in enumerate(frames) if number % every == 0 or row["stutter"]]
        above = line(
            "frame", [row["start_ns"] / 1e9 for row in shown],
            [ms(row["dur_ns"]) for row in shown], 0, unit="ms",
        )  # fmt: skip
        above |= {"mode": "lines", "yaxis": "y2"}
        traces.append(above)
        layout["yaxis"]["domain"] = [0, 0.42]
        layout["yaxis2"] = axis("frame, ms", rangemode="tozero", domain=[0.5, 1])
    return {"data": traces, "layout": layout}
