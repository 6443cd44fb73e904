"""Running time of real-time and deadline threads, and their own ready time."""

from __future__ import annotations

from schedlens.report.figures import bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Real-time and deadline threads"
ORDER = 93
FIGURES = {
    "times": "running and ready time by real-time priority",
}


def section(view: View) -> Section | Nothing:
    """Threads that ran at a real-time or deadline priority of Linux, in the step in view."""
    system = view.rows(f"SELECT source FROM trace WHERE trace_id = {view.trace_id}")
    if not system or system[0]["source"] not in ("perf", "trace_cmd", "perf_script"):
        return Nothing("only Linux has real-time and deadline classes")
    answer = view.ask_step("thread_by_priority", process=view.process)
    rows = [r for r in answer.rows if r["priority"] is not None and -1 <= r["priority"] <= 98]
    if not rows:
        return Nothing("no thread ran at a real-time or deadline priority")
    rows = sorted(rows, key=lambda row: -row["run_ns"])[:24]
    labels = unique(
        f"{short(row['process'] or 'unnamed process')}, "
        + ("deadline" if row["priority"] < 0 else f"real-time {99 - row['priority']}")
        for row in rows
    )
    traces = [
        bar("running", labels, [ms(row["run_ns"]) for row in rows], 0, unit="ms"),
        bar("ready", labels, [ms(row["ready_ns"]) for row in rows], 1, unit="ms"),
    ]
    caption = (
        f"Running and ready time at {len(rows)} real-time or deadline priorities of processes; "
        f"{short(rows[0]['process'] or 'an unnamed process')} ran longest."
    )
    return Section(
        "A real-time thread (SCHED_FIFO, SCHED_RR) that does not block keeps all other threads off "
        "its CPU. A deadline thread that is ready has used up its runtime, or waits for another "
        "deadline thread.",
        view.step_window(),
        (Figure("times", caption, rows_across(traces, "ms"), height=row_height(len(rows))),),
        (answer,),
    )
