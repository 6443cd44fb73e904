"""Running and ready time by priority, and low priorities that delay higher ones."""

from __future__ import annotations

from schedlens.report import binned
from schedlens.report.figures import bar, ms, row_height, rows_across
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Priorities"
ORDER = 92
FIGURES = {
    "overtaken": "running time of each priority, and the part while higher ones lacked a P core",
    "running_threads": "threads that ran at each moment by priority",
    "ready_threads": "threads that were ready at each moment by priority",
}


def section(view: View) -> Section | Nothing:
    """Bars of running and ready time at each priority of the step in view."""
    share = view.ask_step("priority_share", process=view.process)
    rows = [row for row in share.rows if row["priority"] is not None and row["run_ns"]]
    if not rows:
        return Nothing("no priorities were recorded; scheduler events contain them")
    rows.sort(key=lambda row: row["priority"])
    labels = [f"priority {row['priority']}" for row in rows]
    traces = [
        bar("running", labels, [ms(row["run_ns"]) for row in rows], 0, unit="ms"),
        bar("ready", labels, [ms(row["ready_ns"]) for row in rows], 1, unit="ms"),
    ]
    most = max(rows, key=lambda row: row["ready_pct"] or 0.0)
    worst = (
        f"priority {most['priority']} was ready for {most['ready_pct']:.1f} % of its runnable time"
        if most["ready_pct"]
        else "no ready time is known"
    )
    caption = f"Running and ready time of all threads at each of {len(rows)} priorities; {worst}."
    span = view.spans()[0]
    over_time = binned.priorities(view, span)
    return Section(
        "Low-priority work that is ready half of the time shares the machine with the rest; work "
        "that never waits is not limited by its priority. The second table shows which of it ran "
        "on a P core while higher priorities were on E cores, or ready.",
        view.step_window(),
        (
            Figure("overtaken", caption, rows_across(traces, "ms"), height=row_height(len(rows))),
            *(figure for _, figure in over_time),
        ),
        (
            share,
            view.ask_step("background_running"),
            view.ask_step("thread_by_priority", process=view.process).fold(),
            view.ask_step("priority_boost", process=view.process).fold(),
            *(answer for answer, _ in over_time[:1]),
        ),
    )
