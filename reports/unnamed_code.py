"""Code in stacks that has no names, and what gives it names."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Code without names"
ORDER = 215
FIGURES = {"files": "functions without a name by file"}

_MOST_BARS = 20


def section(view: View) -> Section | Nothing:
    """The files with most functions without a name."""
    answer = view.ask_step("unnamed_code")
    rows = answer.rows[:_MOST_BARS]
    if not rows:
        return Nothing("every function in the stacks has a name, or no stacks were recorded")
    labels = unique(short(f"{row['module'] or 'no file'}: {row['reason']}", 60) for row in rows)
    plot = rows_across(
        [bar("without a name", labels, [row["frames_pct"] for row in rows], 0, unit="%")],
        "percent of the functions in stacks",
    )
    caption = f"Most: {rows[0]['module'] or 'no file'}, {rows[0]['frames_pct']:.1f} %."
    return Section(
        "A flame graph shows such code by its address.",
        view.step_window(),
        (Figure("files", caption, plot, height=row_height(len(rows))),),
        (answer,),
    )
