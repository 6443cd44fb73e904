"""How far the recordings can be trusted, and what they can answer."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Quality of the recordings"
ORDER = 220
FIGURES = {
    "unknown": "CPU time whose state is unknown by recording",
}

_MOST_BARS = 24


def section(view: View) -> Section | Nothing:
    """Loss, gaps and unknown time of all recordings; what each question needs."""
    answer = view.ask("trace_quality")
    if not answer.rows:
        return Nothing("the database holds no recording; run `analyze` on a session first")
    rows = [row for row in answer.rows if row["unknown_cpu_pct"] is not None][:_MOST_BARS]
    figures: tuple[Figure, ...] = ()
    unknown = [row for row in rows if row["unknown_cpu_pct"] > 0]
    if unknown:
        labels = unique(short(row["label"], 40) for row in unknown)
        plot = rows_across(
            [bar("unknown", labels, [row["unknown_cpu_pct"] for row in unknown], 3, unit="%",
                 colour="@mid")],
            "percent of CPU time",
        )  # fmt: skip
        caption = f"CPU time whose state is unknown, {len(unknown)} of {len(rows)} recordings."
        figures = (Figure("unknown", caption, plot, height=row_height(len(unknown), each=18)),)
    gaps = sum(row["gaps"] for row in answer.rows)
    lost = [row["events_lost"] for row in answer.rows]
    counts = [count for count in lost if count is not None]
    lead = (
        (
            f"{sum(counts):,} records were lost"
            if counts
            else "The recorder does not report what it lost"
        )
        + f"; {gaps:,} gaps are known. What a gap touches is unknown in every answer, never "
        "guessed. The tables after it say which questions the recording in view can answer, and "
        "what to record for the others, check its running times against the workers' own clocks, "
        "and list what disturbed each step."
    )
    return Section(
        lead,
        view.all_windows(),
        figures,
        (
            answer.without("trace_id"),
            view.ask_step("answerable"),
            view.ask_step("run_clock_check"),
            view.ask("step_disturbance").without("trace_id", "other_utid").fold(),
        ),
    )
