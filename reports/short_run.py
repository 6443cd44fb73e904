"""Threads on the critical path of the frames, their short runs, and where they lost a CPU."""

from __future__ import annotations

from schedlens.report.figures import (
    MOST_SOUGHT,
    bar,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Answer, Figure, Nothing, Section, View

HEADING = "Threads the frames wait for"
ORDER = 18
FIGURES = {
    "threads": "share of the critical path and of short runs by thread",
}

_MOST_BARS = 10


def section(view: View) -> Section | Nothing:
    """Shares of the critical path, short runs after a wakeup, and mid-frame switches."""
    path = view.ask_step("path_thread", process=view.process)
    runs = view.ask_step("short_run", process=view.process)
    if not path.rows:
        if not runs.rows:
            return Nothing("no run after a wakeup was recorded")
        return Nothing("no frames with a critical path were recorded")
    chosen = path.rows[:MOST_SOUGHT]
    shown = min(len(chosen), _MOST_BARS)
    labels = unique(thread_label(row) for row in chosen)
    short = {row["utid"]: row["short_pct"] for row in runs.rows}
    traces = [
        bar("of the critical path", labels, [row["path_pct"] for row in chosen], 0, unit="%"),
        bar("runs under 1 ms", labels, [short.get(row["utid"]) for row in chosen], 1, unit="%"),
    ]
    caption = (
        "Share of the frames' critical path, and share of runs after a wakeup that last under "
        f"1 ms, for the {shown} threads that the frames waited for longest."
    )
    return Section(
        "A thread with mostly short runs looks like a worker, but if it spends long on the "
        "critical path, the frame depends on it. `path_hop` follows the longest frame from wakeup "
        "to wakeup; `path_switch` shows where such a thread lost its CPU in mid-frame and on which "
        "core it resumed.",
        view.step_window(),
        (
            Figure(
                "threads",
                caption,
                rows_across(
                    traces,
                    "percent",
                    stacked=False,
                    sought=[thread_words(row) for row in chosen],
                    first=_MOST_BARS,
                ),
                height=row_height(2 * shown),
            ),
        ),
        (
            path,
            *_longest(view),
            view.ask_step("path_switch", process=view.process),
            runs.fold(),
        ),
    )


def _longest(view: View) -> list[Answer]:
    """The path of the longest frame, piece by piece."""
    path_sql = view.call("path_hop", trace_id=view.trace_id, process=view.process)
    found = view.rows(f"SELECT frame FROM ({path_sql}) ORDER BY dur_ns DESC, frame LIMIT 1")
    return [
        view.ask_step("path_hop", process=view.process, frame=row["frame"]).without(
            "trace_id", "upid", "utid"
        )
        for row in found
    ]
