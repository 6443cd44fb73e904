"""Where threads wait and where they are ready, by the stack with which they left their CPU."""

from __future__ import annotations

from schedlens.report import flame
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Waiting and ready time by code"
ORDER = 33
FIGURES = {
    "waiting": "waiting time by stack",
    "ready": "ready time by stack",
}


def section(view: View) -> Section | Nothing:
    """Flame graphs of the time off the CPU, and the longest waits by function."""
    if view.lacks(view.trace_id, ("stacks",)):
        return Nothing("no stacks were recorded; `collect --stacks` records them")
    answer = view.ask_step("off_cpu_stack", process=view.process)
    rows = answer.rows
    if not any(row["folded"] for row in rows):
        return Nothing("no thread left its CPU with a stack")
    figures = []
    for name, column, verb in (
        ("waiting", "wait_ns", "waited"),
        ("ready", "ready_ns", "were ready"),
    ):
        chosen = [row for row in rows if row[column]]
        if not chosen:
            continue
        most = max(chosen, key=lambda row: row[column])
        total = sum(row[column] for row in chosen)
        caption = (
            f"Where threads {verb}: callers on top, each function as wide as its share of "
            f"{total / 1e6:,.1f} ms. Most: {most['thread']} in {most['frame']}, "
            f"{most[column] / 1e6:,.1f} ms. Click a function to enlarge it."
        )
        plot = flame.icicle(chosen, column, unit="ms", size=1e6)
        figures.append(Figure(name, caption, plot, height=flame.height(chosen)))
    return Section(
        "The code in which threads gave up or lost their CPU, summed over all threads. A thread "
        "that waits for work is listed, too: look for threads that should have been running.",
        view.step_window(),
        tuple(figures),
        (answer.without("trace_id", "utid", "stack_id", "folded"),),
    )
