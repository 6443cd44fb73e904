"""Frequency of each CPU, and of each thread while it ran."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Frequency"
ORDER = 180
FIGURES = {
    "cpus": "mean frequency by CPU",
}


def section(view: View) -> Section | Nothing:
    """Frequencies of the step in view."""
    answer = view.ask_step("frequency")
    rows = [row for row in answer.rows if row["avg_khz"] is not None]
    if not rows:
        return Nothing(
            "no frequency changes were recorded: the event power:cpu_frequency is missing, or the "
            "hardware sets the frequency itself"
        )
    labels = [f"CPU {row['cpu']}" for row in rows]
    plot = rows_across(
        [
            bar("mean", labels, [row["avg_khz"] / 1e3 for row in rows], 0, unit="MHz"),
            bar("mean while busy", labels,
                [None if r["busy_avg_khz"] is None else r["busy_avg_khz"] / 1e3 for r in rows], 1,
                unit="MHz"),
        ],
        "MHz",
        stacked=False,
    )  # fmt: skip
    caption = f"Mean frequency of {len(rows)} CPUs over the time for which it is known."
    return Section(
        "A core runs faster when fewer cores are busy: compare steps with the same number of busy "
        "cores.",
        view.step_window(),
        (Figure("cpus", caption, plot, height=row_height(len(rows), each=22, most=900)),),
        (answer.fold(), view.ask_step("thread_frequency", process=view.process).fold()),
    )
