"""In which code threads wait and are ready longer in stutters than in other frames."""

from __future__ import annotations

from typing import Any

from schedlens.output.wording import count
from schedlens.report import flame
from schedlens.report.figures import bar, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Stutters by code"
ORDER = 34
FIGURES = {
    "more": "more time off the CPU in a stutter than in another frame, by code",
    "shares": "change of the share of time off the CPU in stutters, by stack",
}

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
        (Figure("more", caption, plot, height=row_height(len(rows))), *_shares(answer.rows)),
        (answer.without(*_IDS),),
    )


def _shares(rows: list[dict[str, Any]]) -> tuple[Figure, ...]:
    """A differential flame graph of stutters and other frames; none if one side has no time."""
    summed = [
        {
            "thread": row["thread"],
            "folded": row["folded"],
            "stutter_ns": row["stutter_wait_ns"] + row["stutter_ready_ns"],
            "other_ns": row["other_wait_ns"] + row["other_ready_ns"],
        }
        for row in rows
    ]
    plot = flame.differential(summed, ("stutter_ns", "other_ns"))
    if plot is None:
        return ()
    counts = {(row["process"], row["stutters"], row["others"]) for row in rows}
    stutters, others = (sum(one[place] for one in counts) for place in (1, 2))
    stutter_ms, other_ms = (
        sum(row[name] for row in summed) / 1e6 for name in ("stutter_ns", "other_ns")
    )
    caption = (
        f"Stutters against other frames: waiting and ready time of all threads, {stutter_ms:,.1f} "
        f"ms in the mean of {count(stutters, 'stutter')}, {other_ms:,.1f} ms in the mean of "
        f"{count(others, 'other frame')}. Each function is as wide as the mean of its two shares; "
        "red has a larger share in stutters, blue a smaller one."
    )
    return (Figure("shares", caption, plot, height=flame.height(summed)),)
