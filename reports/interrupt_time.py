"""Interrupt and softirq work by kind."""

from __future__ import annotations

from schedlens.report.figures import bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Interrupts"
ORDER = 190
FIGURES = {
    "kinds": "interrupt time by kind",
}

_MOST_BARS = 24


def section(view: View) -> Section | Nothing:
    """Interrupt work of the step in view, by name over all CPUs, longest first."""
    answer = view.ask_step("interrupt_time")
    if not answer.rows:
        return Nothing(
            "interrupt work was not recorded; record irq:softirq_entry and irq:softirq_exit"
        )
    spent: dict[tuple[str, str], int] = {}
    for row in answer.rows:
        key = (row["kind"], short(row["name"]))
        spent[key] = spent.get(key, 0) + (row["run_ns"] or 0)
    named = sorted(spent, key=lambda key: -spent[key])[:_MOST_BARS]
    labels = unique(f"{kind} {name}" for kind, name in named)
    plot = rows_across(
        [bar("time", labels, [ms(spent[key]) for key in named], 3, unit="ms")],
        "ms, summed over CPUs",
    )
    most = named[0]
    caption = (
        f"Interrupt work by kind, summed over CPUs; the largest is {most[0]} {most[1]}, "
        f"{spent[most] / 1e6:,.3f} ms."
    )
    return Section(
        "This work runs on top of whatever a CPU was doing, so it is also part of the running time "
        "of threads.",
        view.step_window(),
        (Figure("kinds", caption, plot, height=row_height(len(named))),),
        (answer,),
    )
