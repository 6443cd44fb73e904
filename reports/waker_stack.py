"""In which code threads wake others."""

from __future__ import annotations

from schedlens.report import flame
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Wakeups by code"
ORDER = 34
FIGURES = {"wakers": "wakeups by stack of the waker"}


def section(view: View) -> Section | Nothing:
    """A flame graph of wakeups by the stack of the waker."""
    if view.lacks(view.trace_id, ("stacks",)):
        return Nothing("no stacks of wakers were recorded; `collect --stacks` records them")
    answer = view.ask_step("waker_stack", process=view.process)
    rows = [{**row, "thread": row["thread"] or "interrupt on an idle CPU"} for row in answer.rows]
    if not any(row["folded"] for row in rows):
        return Nothing("no waker was recorded with a stack")
    total = sum(row["wakings"] for row in rows)
    most = rows[0]
    caption = (
        f"Who woke threads, and in which code: {total:,} wakeups. Most: {most['thread']} in "
        f"{most['frame']}, {most['wakings']:,} times {most['woken_thread']}. Click a function to "
        "enlarge it."
    )
    plot = flame.icicle(rows, "wakings", unit="wakeups")
    figure = Figure("wakers", caption, plot, height=flame.height(rows))
    return Section(
        "A wakeup from an interrupt shows only which code was interrupted.",
        view.step_window(),
        (figure,),
        (answer.without("trace_id", "utid", "stack_id", "woken_utid", "folded"),),
    )
