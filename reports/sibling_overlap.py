"""How often SMT siblings were busy at once, by core, step, process, thread and pair."""

from __future__ import annotations

from schedlens.report.figures import axis, bar, row_height, rows_across, short, unique
from schedlens.report.sections import Answer, Figure, Nothing, Section, View

HEADING = "Sibling overlap"
ORDER = 60
FIGURES = {
    "recordings": "time with both siblings busy by recording",
    "cores": "time with both, one or no sibling busy by core",
}

_MOST_BARS = 24


def section(view: View) -> Section | Nothing:
    """Cores of the step in view, and the whole machine in every step."""
    total = view.ask_each("sibling_overlap_total")
    if all(row["cores"] == 0 for row in total.rows):
        if any(row["cpus_without_core"] for row in total.rows):
            return Nothing("it is not known for all logical CPUs which of them share a core")
        return Nothing("no core of this machine has two logical CPUs online, so nothing is shared")
    figures = []
    if len(total.rows) > 1:
        figures.append(_steps(view, total))
    cores = view.ask_step("sibling_overlap")
    if cores.rows:
        figures.append(_cores(cores))
    return Section(
        "Two busy siblings share one core, so each is slower than alone. Compare recordings by "
        "`shared of busy`: idle time does not dilute it, but it rises with load, so check `busy` "
        "too. The overlap is symmetric: it does not show which thread was slowed down.",
        f"{view.step_window()} The first table shows all recordings, each over its own window.",
        tuple(figures),
        (
            total,
            cores.fold(),
            view.ask_step("sibling_overlap_process", process=view.process).fold(),
            view.ask_step("sibling_overlap_thread", process=view.process).fold(),
            view.ask_step("sibling_pair", process=view.process)
            .without("trace_id", "utid", "other_utid")
            .fold(),
        ),
    )


def _steps(view: View, total: Answer) -> Figure:
    names = view.labels()
    rows = total.rows[:_MOST_BARS]
    labels = unique(short(names.get(row["trace_id"]), 40) for row in rows)
    plot = rows_across(
        [
            bar("of busy core time", labels, [r["shared_of_busy_pct"] for r in rows], 1, unit="%"),
            bar("of trace time", labels, [r["both_pct"] for r in rows], 0, unit="%"),
        ],
        "percent with both siblings busy",
        stacked=False,
    )
    plot["layout"]["xaxis"] = axis("percent with both siblings busy", range=[0, 101])
    known = [row for row in total.rows if row["shared_of_busy_pct"] is not None]
    most = max(known, key=lambda row: row["shared_of_busy_pct"], default=None)
    highest = (
        ""
        if most is None
        else f" The highest: {most['shared_of_busy_pct']:.1f} % of busy core time, "
        f"{short(names.get(most['trace_id']), 60)}."
    )
    caption = (
        f"Time with both siblings of a core busy, in {len(rows)} of {len(total.rows)} recordings."
        f"{highest}"
    )
    return Figure("recordings", caption, plot, height=row_height(len(rows), each=22))


def _cores(cores: Answer) -> Figure:
    rows = cores.rows
    labels = [
        f"core {row['core']}"
        + (f" {row['core_type']}" if row["core_type"] not in (None, "U") else "")
        for row in rows
    ]
    plot = rows_across(
        [
            bar("both busy", labels, [row["both_pct"] for row in rows], 1, unit="%"),
            bar("one busy", labels, [row["one_pct"] for row in rows], 0, unit="%"),
            bar("both idle", labels, [row["none_pct"] for row in rows], 0, unit="%",
                colour="@pale"),
        ],
        "percent of time",
    )  # fmt: skip
    plot["layout"]["xaxis"] = axis("percent of time", range=[0, 101])
    shared = sum(1 for row in rows if (row["both_pct"] or 0) >= 50)
    caption = (
        f"Each core of the step in view: {shared} of {len(rows)} had both siblings busy for at "
        "least half of the time."
    )
    return Figure("cores", caption, plot, height=row_height(len(rows), each=20, most=900))
