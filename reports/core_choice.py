"""What kind of core each thread ran on: P alone, P with an SMT sibling busy, E."""

from __future__ import annotations

from schedlens.report import binned
from schedlens.report.figures import MOST_SOUGHT
from schedlens.report.sections import Figure, Nothing, Section, View
from schedlens.report.thread_bars import by_thread

HEADING = "Time by kind of core"
ORDER = 88
FIGURES = {
    "kinds": "running time by thread and kind of core",
    "core_kinds": "threads that ran at each moment by kind of core",
    "thread_states": "what the busiest threads did",
}

_KINDS = (
    ("p_alone_ns", "P alone", "@blue", 0),
    ("p_shared_ns", "P, SMT sibling busy", "@teal", 1),
    ("e_ns", "E", "@green", 2),
    ("p_unknown_ns", "P, sibling unknown", "@mid", 5),
    ("other_ns", "core type unknown", "@mid", 3),
)


def section(view: View) -> Section | Nothing:
    """Stacked bars of the longest-running threads of the step in view."""
    answer = view.ask_step("core_choice", process=view.process)
    rows = [row for row in answer.rows if row["run_ns"]]
    if not rows:
        return Nothing("no thread ran in this window")
    if not any(row["e_ns"] or row["p_shared_ns"] for row in rows):
        return Nothing("every thread ran alone on a P core, or the cores are unknown")
    plot, shown, height = by_thread(rows[:MOST_SOUGHT], _KINDS, "ms running")
    caption = (
        f"Running time of the {shown} longest-running of {len(rows)} threads by kind of "
        "core, longest first."
    )
    figures = [Figure("kinds", caption, plot, height=height)]
    answers = []
    span = view.spans()[0]
    for drawn in (binned.core_kinds(view, span), binned.thread_states(view, span)):
        if drawn is not None:
            answers.append(drawn[0])
            figures.append(drawn[1])
    return Section(
        "Long-running threads belong on P cores of their own. Two columns of the table show how "
        "long a better core was idle meanwhile: `e beside idle p` and `p shared beside idle`.",
        view.step_window(),
        tuple(figures),
        (
            answer.showing(
                "thread", "tid", "run_ns", "p_alone_ns", "p_shared_ns", "e_ns",
                "e_beside_idle_p_ns", "idle_core", "p_shared_beside_idle_ns", "process",
            ),
            view.ask_step("thread_core_use", process=view.process).fold(),
            *answers,
        ),
    )  # fmt: skip
