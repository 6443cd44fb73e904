"""In which code threads wait and are ready longer in stutters than in other frames."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Stutters by code"
ORDER = 34
FIGURES = {"more": "more time off the CPU in a stutter than in another frame, by code"}

_MOST_BARS = 20
_IDS = ("trace_id", "utid", "stack_id", "folded")


def section(view: View) -> Section | Nothing:
    """The code in which stutters wait longer than other frames."""
    if view.lacks(view.trace_id, ("frames", "stacks")):
        return Nothing(
            "no stutters with stacks were recorded; `collect --stacks` and frames "
            "(docs/frame-marks.md) record them"
        )
    answer = view.ask_step("stutter_stack", process=view.process)
    rows = [row for row in answer.rows if row["more_wait_ns"] + row["more_ready_ns"] > 0]
    rows = rows[:_MOST_BARS]
    if not rows:
        return Nothing("no code waits longer in stutters than in other frames")
    labels = unique(
        short(f"{row['thread']}: {row['own_frame'] or row['frame']}", 70) for row in rows
    )
    plot = rows_across(
        [
            bar("waiting", labels, [row["more_wait_ns"] / 1e6 for row in rows], 0, unit="ms"),
            bar("ready", labels, [row["more_ready_ns"] / 1e6 for row in rows], 1, unit="ms"),
        ],
        "ms more in a stutter",
    )
    most = rows[0]
    more_ms = (most["more_wait_ns"] + most["more_ready_ns"]) / 1e6
    caption = (
        f"Mean of {most['stutters']} stutters less that of {most['others']} other frames. Most: "
        f"{most['thread']} in {most['own_frame'] or most['frame']}, {more_ms:,.1f} ms more."
    )
    return Section(
        "A thread that waits for its next task waits longer in a longer frame, too: look for the "
        "threads that the frame needs.",
        view.step_window(),
        (Figure("more", caption, plot, height=row_height(len(rows))),),
        (answer.without(*_IDS),),
    )
