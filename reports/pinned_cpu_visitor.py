"""Other threads that ran on CPUs that are isolated or have threads pinned to them."""

from __future__ import annotations

from schedlens.report.figures import (
    MOST_SOUGHT,
    bar,
    ms,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Visitors on pinned CPUs"
ORDER = 150
FIGURES = {
    "visits": "running time of other threads on pinned CPUs",
}

_MOST_BARS = 16


def section(view: View) -> Section | Nothing:
    """Visitors of the step in view."""
    answer = view.ask_step("pinned_cpu_visitor", process=view.process)
    if not answer.rows:
        return Nothing("no CPU is isolated or has pinned threads, or nothing else ran there")
    rows = sorted(answer.rows, key=lambda row: -row["run_ns"])[:MOST_SOUGHT]
    shown = min(len(rows), _MOST_BARS)
    labels = unique(f"{thread_label(row)}, CPU {row['cpu']}" for row in rows)
    plot = rows_across(
        [
            bar("visitor runs", labels, [ms(row["run_ns"]) for row in rows], 0, unit="ms"),
            bar("owner ready meanwhile", labels, [ms(row["owner_ready_ns"]) for row in rows], 1,
                unit="ms"),
        ],
        "ms of the window",
        stacked=False,
        sought=[thread_words(row) for row in rows],
        first=_MOST_BARS,
    )  # fmt: skip
    most = rows[0]
    caption = (
        f"The {shown} longest of {len(answer.rows)} visits by thread and CPU; the longest is "
        f"{thread_label(most)} on CPU {most['cpu']}, {most['run_ns'] / 1e6:,.3f} ms."
    )
    return Section(
        "Every other thread on a CPU reserved for one thread disturbs it. Kernel threads bound to "
        "the CPU cannot be moved; others can, by affinity or isolation.",
        view.step_window(),
        (Figure("visits", caption, plot, height=row_height(shown, each=30)),),
        (answer,),
    )
