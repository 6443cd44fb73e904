"""Running and ready time by priority: whether low priorities wait while high ones run."""

from __future__ import annotations

from schedlens.figures import bar, ms, row_height, rows_across, short, unique
from schedlens.sections import Figure, Nothing, Section, View

HEADING = "Time by priority"
ORDER = 110

_MOST_BARS = 24


def section(view: View) -> Section | Nothing:
    """Priorities of the step in view."""
    answer = view.ask_step("thread_by_priority", process=view.process)
    known = [row for row in answer.rows if row["priority"] is not None]
    if not known:
        return Nothing(
            "priorities were not recorded; record the event sched:sched_switch (`collect` does)"
        )
    rows = sorted(known, key=lambda row: -(row["run_ns"] + (row["ready_ns"] or 0)))[:_MOST_BARS]
    rows.sort(key=lambda row: row["priority"])
    labels = unique(f"{row['priority']} {short(row['process'], 24)}" for row in rows)
    plot = rows_across(
        [
            bar("running", labels, [ms(row["run_ns"]) for row in rows], 0, unit="ms"),
            bar("ready", labels, [ms(row["ready_ns"]) for row in rows], 1, unit="ms"),
        ],
        "ms, threads added up",
    )
    caption = (
        f"Running and ready time by priority and process, {len(rows)} of {len(known)} rows. "
        "Numbers are as recorded: on Linux 120 is the normal priority and lower is more urgent, "
        "on Windows higher is."
    )
    return Section(
        "A priority that is ready for long while others run is held back; work of low priority "
        "that runs while higher waits points to affinity or to a full machine.",
        view.step_window(),
        (Figure(caption, plot, height=row_height(len(rows))),),
        (answer,),
    )
