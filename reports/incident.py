"""What made a ring save its events, and who caused it."""

from __future__ import annotations

from schedlens.report.sections import Nothing, Section, View

HEADING = "Incident"
ORDER = 2
FIGURES: dict[str, str] = {}

_IDS = ("trace_id", "utid", "by_utid")


def section(view: View) -> Section | Nothing:
    """The incident of the shown recording."""
    answer = view.ask_step("incident")
    if not answer.rows:
        return Nothing("no recording was saved by a ring (collect --ring)")
    return Section(
        "The thread that it happened to, and the thread and the code that caused it.",
        view.step_window(),
        (),
        (answer.without(*_IDS),),
    )
