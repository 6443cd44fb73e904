"""Cgroups that were throttled by their CPU quota."""

from __future__ import annotations

from schedlens.report.figures import bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Throttled cgroups"
ORDER = 140
FIGURES = {
    "cgroups": "CPU time and throttled time by cgroup",
}


def section(view: View) -> Section | Nothing:
    """Cgroups with a quota, all recordings."""
    answer = view.ask_each("throttled_cgroup", "trace_id, cgroup")
    if not answer.rows:
        return Nothing("no cgroup had a CPU quota, and none was throttled")
    rows = sorted(answer.rows, key=lambda row: -(row["throttled_ns"] or 0))[:16]
    names = view.labels()
    several = len({row["trace_id"] for row in rows}) > 1
    labels = unique(
        short(row["cgroup"], 40) + (f", {short(names[row['trace_id']])}" if several else "")
        for row in rows
    )
    plot = rows_across(
        [
            bar("used", labels, [ms(row["usage_ns"]) for row in rows], 0, unit="ms"),
            bar("throttled", labels, [ms(row["throttled_ns"]) for row in rows], 4, unit="ms"),
        ],
        "ms of the step",
        stacked=False,
    )
    return Section(
        "A cgroup that has used up its quota is stopped until its next period, even if CPUs are "
        "idle. Raise the quota, or run fewer threads in it.",
        f"{view.all_windows()} Usage and throttling are counted between the two snapshots of a "
        "step.",
        (
            Figure(
                "cgroups",
                f"CPU time used and throttled time of {len(rows)} of {len(answer.rows)} cgroups.",
                plot,
                height=row_height(len(rows), each=34),
            ),
        ),
        (answer,),
    )
