"""What stood in the way of ready threads, and the longest waits with who ran instead."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import (
    MOST_SOUGHT,
    Plot,
    bar,
    ms,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Ready time by what stood in the way"
ORDER = 80

_MOST_BARS = 30
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
    held = sorted((row for row in answer.rows if row["ready_ns"]), key=lambda row: -row["ready_ns"])
    if not held:
        return Nothing("no thread of the step in view was ready without running")
    rows = held[:MOST_SOUGHT]
    shown = min(len(rows), _MOST_BARS)
    parts = _bars(rows, unique(thread_label(row) for row in rows))
    total = sum(row["ready_ns"] for row in held)
    causes = sorted(
        ((sum(row[column] or 0 for row in held), name) for column, name, _, _ in _PARTS),
        reverse=True,
    )
    caption = (
        f"Ready time of the {shown} longest of {len(held)} threads by what stood in the way. "
        f"Of {total / 1e6:,.3f} ms in all, {causes[0][0] / 1e6:,.3f} ms: {causes[0][1]}."
    )
    words = [thread_words(row) for row in rows]
    plot = rows_across(parts, "ms ready", sought=words, first=_MOST_BARS)
    figures = [Figure(caption, plot, height=row_height(shown))]
    waits = view.ask_step("worst_waits", process=view.process).without(
        "trace_id", "utid", "instead_utid"
    )
    if waits.rows:
        labels = [f"{row['place']}. {thread_label(row)}" for row in waits.rows]
        words = [f"{thread_words(r)} {thread_words(r, before='instead_')}" for r in waits.rows]
        plot = rows_across(
            _bars(waits.rows, labels), "ms ready", sought=words, first=len(waits.rows)
        )
        caption = (
            f"The {len(waits.rows)} longest single waits; the longest, "
            f"{waits.rows[0]['ready_ns'] / 1e6:,.3f} ms, of {thread_label(waits.rows[0])}"
            f"{_instead(waits.rows[0])}."
        )
        figures.append(Figure(caption, plot, height=row_height(len(waits.rows))))
    return Section(
        "Decided moment by moment, the first reason wins, so that the parts sum to the ready time. "
        "`a CPU was idle` is time the system could have given; `all busy` calls for fewer or less "
        "urgent others; `throttled` for a higher quota.",
        view.step_window(),
        tuple(figures),
        (
            waits,
            answer.fold(),
            view.ask_each("ready_obstacle_total").fold(),
        ),
    )


def _bars(rows: list[dict[str, Any]], labels: list[str]) -> list[Plot]:
    present = [part for part in _PARTS if any(row[part[0]] for row in rows)]
    return [
        bar(name, labels, [ms(row[column]) for row in rows], index, unit="ms", colour=colour)
        for column, name, colour, index in present
    ]


def _instead(row: dict[str, Any]) -> str:
    if row["instead_thread"] is None:
        return ""
    return f"; meanwhile {thread_label(row, 'instead_thread', 'instead_tid')} ran on that CPU"
