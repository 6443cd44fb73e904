"""What each cgroup, container and service ran and waited."""

from __future__ import annotations

from schedlens.report.figures import bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Answer, Figure, Nothing, Section, View

HEADING = "Cgroups, containers and services"
ORDER = 145
FIGURES = {
    "groups": "running and ready time by service or cgroup",
}

_MOST_BARS = 24
_LEAD = (
    "Limit any section to one of them with `analyze --process cgroup:PATH`, `container:ID`, "
    "`pod:ID` or `service:UNIT`."
)


def section(view: View) -> Section | Nothing:
    """The services of the step in view, and tables of its containers, pods and cgroups."""

    def by(kind: str) -> Answer:
        return view.ask_step("group_summary", process=view.process, by=kind).without("trace_id")

    cgroups = by("cgroup")
    if not cgroups.rows:
        return Nothing("the recording has no readings of cgroups; `collect` on Linux makes them")
    answers = {kind: by(kind) for kind in ("service", "container", "pod")} | {"cgroup": cgroups}
    # A machine without systemd has cgroups only.
    shown = answers["service"] if _named(answers["service"]) else answers["cgroup"]
    rows = shown.rows[:_MOST_BARS]
    labels = unique(short(row["name"] or "no name", 40) for row in rows)
    plot = rows_across(
        [
            bar("running", labels, [ms(row["run_ns"]) for row in rows], 0, unit="ms"),
            bar("ready", labels, [ms(row["ready_ns"]) for row in rows], 1, unit="ms"),
        ],
        "ms of the window, summed over threads",
    )
    kind = "services" if shown is answers["service"] else "cgroups"
    caption = f"Running and ready time of {len(rows)} of {len(shown.rows)} {kind}."
    # What each got of the CPUs next to what was fair.
    shares = view.ask_step("sharing_group_summary", process=view.process).without("trace_id")
    named = [answer.fold() for answer in (*answers.values(), shares) if _named(answer)]
    return Section(
        _LEAD,
        view.step_window(),
        (Figure("groups", caption, plot, height=row_height(len(rows))),),
        tuple(named),
    )


def _named(answer: Answer) -> bool:
    """Whether any row has a name: some thread is in such a group."""
    return any(row["name"] is not None for row in answer.rows)
