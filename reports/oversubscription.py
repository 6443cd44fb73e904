"""Runnable threads against the machine's CPUs, and the worker pools."""

from __future__ import annotations

from schedlens.report.figures import axis, bar
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Oversubscription"
ORDER = 97
FIGURES = {
    "demand": "share of the window at each number of busy CPUs plus ready threads",
}


def section(view: View) -> Section | Nothing:
    """Time at each number of runnable threads of the step in view, and the pools of all steps."""
    runnable = view.ask_step("runnable_count")
    rows = runnable.rows
    if not rows:
        return Nothing("no CPU has a state in this window")
    lines = view.rows(f"FROM capacity_line(p_trace_id := {view.trace_id})")
    online = max((line["cpus"] for line in lines), default=0)
    above = sum(row["pct"] * (row["above_ns"] or 0) / row["ns"] for row in rows)
    most = "at most " if len({line["cpus"] for line in lines}) > 1 else ""
    caption = (
        f"Share of the window at each number of busy CPUs plus ready threads; above the {most}"
        f"{online} logical CPUs online for {above:.1f} % of it."
    )
    plot = {
        "data": [
            bar("runnable", [row["runnable"] for row in rows], [row["pct"] for row in rows], 0,
                unit="%", across=False)
        ],
        "layout": {
            "xaxis": axis("busy CPUs plus ready threads"),
            "yaxis": axis("percent of the window", rangemode="tozero"),
            "shapes": [
                {"type": "line", "x0": online + 0.5, "x1": online + 0.5, "y0": 0, "y1": 1,
                 "yref": "paper", "line": {"color": "@dark", "dash": "dash", "width": 1.5}}
            ],
        },
    }  # fmt: skip
    return Section(
        "Right of the line, more threads want to run than there are CPUs. A pool with as many "
        "workers as logical CPUs leaves none for the other threads. If sections with more workers "
        "are not shorter, another worker does not help.",
        view.step_window(),
        (Figure("demand", caption, plot),),
        (
            view.ask_each("worker_pool", "trace_id, run_ns DESC, upid, pool", process=view.process),
            view.ask_step("section_scaling", process=view.process),
            runnable.fold(),
        ),
    )
