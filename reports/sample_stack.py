"""Which code ran: samples of threads on their CPUs."""

from __future__ import annotations

from schedlens.report import flame
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Running time by code"
ORDER = 32
FIGURES = {"samples": "samples by stack"}


def section(view: View) -> Section | Nothing:
    """A flame graph of the samples, and the functions with most of them."""
    answer = view.ask_step("sample_stack", process=view.process)
    rows = answer.rows
    if not rows:
        return Nothing("no samples were recorded; `collect --stacks` records them")
    total = sum(row["samples"] for row in rows)
    most = rows[0]
    caption = (
        f"What ran: callers on top, each function as wide as its share of {total:,} samples. "
        f"Most: {most['thread']} in {most['frame']}, {most['samples']:,} samples. Click a function "
        "to enlarge it."
    )
    plot = flame.icicle(rows, "samples", unit="samples")
    figure = Figure("samples", caption, plot, height=flame.height(rows))
    return Section(
        "Samples are taken at fixed intervals on each CPU that runs a thread. Few samples of a "
        "function say little about its share.",
        view.step_window(),
        (figure,),
        (answer.without("trace_id", "utid", "stack_id", "folded"),),
    )
