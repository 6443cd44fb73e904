"""Why ready threads were not running, and the longest waits with what ran instead."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import (
    MOST_SOUGHT,
    row_height,
    rows_across,
    thread_label,
    thread_words,
)
from schedlens.report.sections import Figure, Nothing, Section, View
from schedlens.report.thread_bars import by_thread, stacked

HEADING = "Ready time by cause"
ORDER = 80
FIGURES = {
    "threads": "ready time by thread and cause",
    "worst_waits": "the longest single waits by cause",
}

_PARTS = (
    ("idle_available_ns", "a CPU was idle", "@red", 3),
    ("all_busy_ns", "all busy", "@blue", 0),
    ("throttled_ns", "throttled", "@orange", 1),
    ("idle_exit_ns", "waking the CPU", "@teal", 2),
    ("parked_available_ns", "only parked CPUs idle", "@purple", 4),
    ("obstacle_unknown_ns", "unknown", "@mid", 5),
)


def section(view: View) -> Section | Nothing:
    """The threads of the step in view with the most ready time."""
    answer = view.ask_step("ready_obstacle", process=view.process)
    ready = [row for row in answer.rows if row["ready_ns"]]
    if not ready:
        return Nothing("no thread of the step in view was ready without running")
    rows = sorted(ready, key=lambda row: -row["ready_ns"])[:MOST_SOUGHT]
    plot, shown, height = by_thread(rows, _PARTS, "ms ready")
    total = sum(row["ready_ns"] for row in ready)
    causes = sorted(
        ((sum(row[column] or 0 for row in ready), name) for column, name, _, _ in _PARTS),
        reverse=True,
    )
    caption = (
        f"Ready time by cause, for the {shown} threads with the most of {len(ready)}. The largest "
        f"cause is '{causes[0][1]}': {causes[0][0] / 1e6:,.3f} of {total / 1e6:,.3f} ms."
    )
    figures = [Figure("threads", caption, plot, height=height)]
    waits = view.ask_step("worst_waits", process=view.process).without(
        "trace_id", "utid", "instead_utid"
    )
    if waits.rows:
        labels = [f"{row['place']}. {thread_label(row)}" for row in waits.rows]
        words = [f"{thread_words(r)} {thread_words(r, before='instead_')}" for r in waits.rows]
        traces = stacked(waits.rows, labels, _PARTS)
        plot = rows_across(traces, "ms ready", sought=words, first=len(waits.rows))
        caption = (
            f"The {len(waits.rows)} longest single waits. The longest is "
            f"{thread_label(waits.rows[0])} with {waits.rows[0]['ready_ns'] / 1e6:,.3f} ms"
            f"{_instead(waits.rows[0])}."
        )
        figures.append(Figure("worst_waits", caption, plot, height=row_height(len(waits.rows))))
    return Section(
        "Each moment counts for the first cause that applies, so the parts add up to the ready "
        "time. `a CPU was idle`: the scheduler could have run the thread. `all busy`: run fewer "
        "other threads, or lower their priority. `throttled`: raise the quota, "
        "or the runtime of a deadline thread.",
        view.step_window(),
        tuple(figures),
        (
            waits,
            answer.fold(),
            view.ask_each("ready_obstacle_total").fold(),
        ),
    )


def _instead(row: dict[str, Any]) -> str:
    if row["instead_thread"] is None:
        return ""
    return f"; meanwhile {thread_label(row, 'instead_thread', 'instead_tid')} ran on that CPU"
