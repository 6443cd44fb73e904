"""Busy CPUs during each frame, with the capacity lines."""

from __future__ import annotations

from typing import Any

from schedlens.figures import axis, line
from schedlens.sections import Figure, Nothing, Section, View

HEADING = "Concurrency by frame"
ORDER = 96

_MOST_POINTS = 4_000


def section(view: View) -> Section | Nothing:
    """Mean busy CPUs of the machine and of the presenting process over the frames."""
    answer = view.ask_step("frame_concurrency", process=view.process)
    if not answer.rows:
        return Nothing("no frames are recorded")
    step = max(1, len(answer.rows) // _MOST_POINTS)
    rows = answer.rows[::step]
    x = [row["start_ns"] / 1e9 for row in rows]
    traces = []
    for index, (column, name) in enumerate((("busy", "machine"), ("own_busy", "the process"))):
        drawn = line(name, x, [row[column] for row in rows], index, unit="CPUs")
        drawn["mode"] = "lines"
        traces.append(drawn)
    first = rows[0]
    lines: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for column, name in (("p_cores", "P"), ("cores", "P+E"), ("cpus", "P+E+SMT")):
        if not first[column] or first[column] in [note["y"] for note in notes]:
            continue
        lines.append(
            {
                "type": "line",
                "y0": first[column],
                "y1": first[column],
                "x0": 0,
                "x1": 1,
                "xref": "paper",
                "line": {"color": "@dark", "dash": "dot", "width": 1},
            }
        )
        notes.append({"y": first[column], "x": 1, "xref": "paper", "xanchor": "right",
                      "yanchor": "bottom", "showarrow": False, "text": name})  # fmt: skip
    caption = (
        f"Logical CPUs busy on average during each of {len(answer.rows)} frames, with the capacity "
        "lines of the machine."
    )
    plot = {
        "data": traces,
        "layout": {
            "xaxis": axis("s"),
            "yaxis": axis("busy logical CPUs", rangemode="tozero"),
            "shapes": lines,
            "annotations": notes,
        },
    }
    return Section(
        "Above the line P work needs E cores, above P+E it needs siblings. A frame far below them "
        "waits for single threads: more workers cannot shorten it.",
        view.step_window(),
        (Figure(caption, plot),),
        (answer.fold(), view.ask_step("capacity_line")),
    )
