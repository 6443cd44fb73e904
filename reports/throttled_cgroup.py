"""Cgroups that were held back by their CPU quota."""

from __future__ import annotations

from schedlens.report.figures import bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Throttled cgroups"
ORDER = 140


def section(view: View) -> Section | Nothing:
    """Cgroups with a quota, all recordings."""
    answer = view.ask_each("throttled_cgroup", "trace_id, cgroup")
    if not answer.rows:
        return Nothing("no cgroup with a CPU quota was seen, and none was throttled")
    rows = sorted(answer.rows, key=lambda row: -(row["throttled_ns"] or 0))[:24]
    names = view.labels()
    several = len({row["trace_id"] for row in rows}) > 1
    labels = unique(
        short(row["cgroup"], 40) + (f", {short(names[row['trace_id']])}" if several else "")
        for row in rows
    )
    plot = rows_across(
        [
            bar("used", labels, [ms(row["usage_ns"]) for row in rows], 0, unit="ms"),
            bar("held back", labels, [ms(row["throttled_ns"]) for row in rows], 4, unit="ms"),
        ],
        "ms of the step",
        stacked=False,
    )
    return Section(
        "A cgroup that used its quota up stands still until its next period, idle CPUs or not. "
        "Raise the quota, or lower the number of its threads.",
        f"{view.all_windows()} Usage and throttling are counted between the two snapshots of a "
        "step.",
        (
            Figure(
                f"CPU time used and time held back of {len(rows)} of {len(answer.rows)} cgroups.",
                plot,
                height=row_height(len(rows), each=34),
            ),
        ),
        (answer,),
    )
