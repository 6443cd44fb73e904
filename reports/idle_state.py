"""Time in each idle state of each CPU."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Idle states"
ORDER = 170
FIGURES = {
    "states": "time in each idle state by CPU",
}


def section(view: View) -> Section | Nothing:
    """Idle states of the step in view."""
    answer = view.ask_step("idle_state")
    if not answer.rows:
        return Nothing(
            "idle states were not recorded: the event power:cpu_idle is missing, or this kernel "
            "has none (often in a virtual machine)"
        )
    cpus = sorted({row["cpu"] for row in answer.rows})
    states = sorted({row["state"] for row in answer.rows})
    share = {(row["cpu"], row["state"]): row["idle_pct"] for row in answer.rows}
    labels = [f"CPU {cpu}" for cpu in cpus]
    traces = [
        bar(f"state {state}", labels, [share.get((cpu, state)) for cpu in cpus], index, unit="%")
        for index, state in enumerate(states)
    ]
    caption = f"Share of the window in each idle state on {len(cpus)} CPUs; 0 is the shallowest."
    return Section(
        "Deep idle states save power and make a core slower to wake. Many short stretches in "
        "shallow states mean that work arrives in small pieces.",
        view.step_window(),
        (
            Figure(
                "states",
                caption,
                rows_across(traces, "percent of the window"),
                height=row_height(len(cpus), each=18, most=900),
            ),
        ),
        (answer.fold(),),
    )
