"""Threads that shared a core while a whole core they may use was idle."""

from __future__ import annotations

from schedlens.report.figures import (
    MOST_SOUGHT,
    bar,
    ms,
    row_height,
    rows_across,
    short,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Avoidable sharing"
ORDER = 70
FIGURES = {
    "recordings": "shared and avoidable time by recording",
    "threads": "avoidable time by thread",
}

_MOST_BARS = 16


def section(view: View) -> Section | Nothing:
    """The machine in every recording, and the threads of the step in view."""
    total = view.ask_each("avoidable_sharing_total")
    if not any(row["shared_ns"] for row in total.rows):
        return Nothing("no thread ran with an SMT sibling busy in any window")
    figures = []
    names = view.labels()
    shared = [row for row in total.rows if row["shared_ns"]]
    drawn = sorted(shared, key=lambda row: -(row["any_type_ns"] or 0))[:_MOST_BARS]
    labels = unique(short(names.get(row["trace_id"]), 40) for row in drawn)
    plot = rows_across(
        [
            bar("avoidable", labels, [ms(row["any_type_ns"]) for row in drawn], 1, unit="ms"),
            bar("all shared time", labels, [ms(row["shared_ns"]) for row in drawn], 0, unit="ms"),
        ],
        "ms of thread time",
        stacked=False,
    )
    worst = drawn[0]
    most = (
        f"most avoidable: {worst['any_type_ns'] / 1e6:,.3f} ms in "
        f"{short(names.get(worst['trace_id']), 60)}"
        if worst["any_type_ns"]
        else "none of it was avoidable within the threads' affinity"
    )
    caption = (
        f"Time with an SMT sibling busy, and the part that idle cores could have taken, in "
        f"{len(drawn)} of {len(total.rows)} recordings; {most}."
    )
    figures.append(Figure("recordings", caption, plot, height=row_height(len(drawn), each=30)))
    threads = view.ask_step("avoidable_sharing", process=view.process)
    rows = sorted(
        (row for row in threads.rows if row["any_type_ns"]), key=lambda row: -row["any_type_ns"]
    )[:MOST_SOUGHT]
    if rows:
        shown = min(len(rows), _MOST_BARS)
        labels = unique(thread_label(row) for row in rows)
        same_type = [r["same_type_ns"] for r in rows if r["same_type_ns"] is not None]
        bars = [
            bar("same core type idle", labels, [ms(ns) for ns in same_type], 1, unit="ms"),
            bar("any core type idle", labels, [ms(r["any_type_ns"]) for r in rows], 2, unit="ms"),
        ]
        plot = rows_across(
            # The types of cores are known for all threads of a recording or for none.
            bars if same_type else bars[1:],
            "ms",
            stacked=False,
            sought=[thread_words(row) for row in rows],
            first=_MOST_BARS,
        )  # fmt: skip
        caption = (
            f"The {shown} threads that could have moved to an idle core for longest, each counted "
            "alone: they could not all have moved at once."
        )
        figures.append(Figure("threads", caption, plot, height=row_height(shown, each=30)))
    return Section(
        "Act on the avoidable time of the whole machine, which at each moment counts no more "
        "threads than there are idle cores. If `sharing_by_affinity` is larger, only the threads' "
        "affinity kept them together. A core counts as idle from 100 µs.",
        f"{view.all_windows()} Threads: {view.step_window()}",
        tuple(figures),
        (total, view.ask_each("sharing_by_affinity").fold(), threads.fold()),
    )
