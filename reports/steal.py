"""Time the hypervisor took from the virtual CPUs."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Stolen time"
ORDER = 160
FIGURES = {
    "shares": "stolen time by step and CPU",
}

_MOST_BARS = 20


def section(view: View) -> Section | Nothing:
    """Steal of each CPU; draws the steps with the most of it."""
    answer = view.ask_each("steal", "trace_id, cpu")
    known = [row for row in answer.rows if row["steal_pct"] is not None]
    if not known:
        return Nothing("the system's own CPU times were not recorded; `collect` records them")
    if all(row["steal_ns"] == 0 for row in known):
        return Nothing(
            "no time was stolen by a hypervisor in "
            f"{len({row['trace_id'] for row in known})} recordings"
        )
    rows = sorted(known, key=lambda row: (-row["steal_pct"], row["trace_id"], row["cpu"]))
    rows = rows[:_MOST_BARS]
    names = view.labels()
    several = len({row["trace_id"] for row in known}) > 1
    labels = unique(
        f"CPU {row['cpu']}" + (f", {short(names[row['trace_id']], 34)}" if several else "")
        for row in rows
    )
    plot = rows_across(
        [bar("stolen", labels, [row["steal_pct"] for row in rows], 4, unit="%")],
        "percent of the step",
    )
    caption = (
        f"The {len(rows)} highest of {len(known)} shares; the highest is "
        f"{rows[0]['steal_pct']:.1f} % on CPU {rows[0]['cpu']}."
    )
    return Section(
        "A virtual CPU that the host has descheduled looks busy in the trace although nothing "
        "runs. If much time is stolen, repeat the measurement on a quieter host before trusting "
        "small differences.",
        "Between the two snapshots of each step.",
        (Figure("shares", caption, plot, height=row_height(len(rows))),),
        (answer,),
    )
