"""How much time each function took, by itself and with what it called."""

from __future__ import annotations

from schedlens.report.sections import Nothing, Section, View

HEADING = "Functions"
ORDER = 36


def section(view: View) -> Section | Nothing:
    """A table of functions that can be sorted and searched."""
    if view.lacks(view.trace_id, ("stacks",)):
        return Nothing("no stacks were recorded; `collect --stacks` records them")
    answer = view.ask_step("function_time", process=view.process)
    if not any(row["frame"] != "[no stack]" for row in answer.rows):
        return Nothing("no function is in a stack of this window")
    return Section(
        "Self is what threads did in a function itself, total includes the functions that it "
        "called. Sort by a column to rank the functions by it, and filter the rows to find one.",
        view.step_window(),
        answers=(answer,),
    )
