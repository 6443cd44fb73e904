"""Where the cycles of threads go: misses, stalls on L3 and memory, top-down level 1."""

from __future__ import annotations

from schedlens.report.figures import (
    MOST_SOUGHT,
    bar,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Caches and pipeline"
ORDER = 96
FIGURES = {
    "topdown": "top-down level 1 by thread",
    "stalls": "cycles stalled on L3 and memory by thread",
}

_MOST_BARS = 16
_TOPDOWN = (
    ("retiring_pct", "retiring", "@green", 2),
    ("bad_speculation_pct", "bad speculation", "@red", 4),
    ("frontend_pct", "front end", "@orange", 1),
    ("backend_pct", "back end", "@blue", 0),
)
_STALLS = (("l3_bound_pct", "L3", "@orange", 1), ("memory_bound_pct", "memory", "@red", 4))


def section(view: View) -> Section | Nothing:
    """The threads of the step in view that were counted longest."""
    answer = view.ask_step("cache_bound", process=view.process)
    figures = []
    for name, columns, words in (
        ("topdown", _TOPDOWN, "What became of the issue slots"),
        ("stalls", _STALLS, "Cycles stalled on loads from L3 and from memory"),
    ):
        rows = [row for row in answer.rows if row[columns[0][0]] is not None][:MOST_SOUGHT]
        if not rows:
            continue
        shown = min(len(rows), _MOST_BARS)
        labels = unique(f"{thread_label(row)} {row['core_type'] or ''}".strip() for row in rows)
        plot = rows_across(
            [
                bar(text, labels, [row[column] for row in rows], index, unit="%", colour=colour)
                for column, text, colour, index in columns
            ],
            "percent",
            sought=[thread_words(row) for row in rows],
            first=_MOST_BARS,
        )
        caption = f"{words} of the {shown} threads that were counted longest, by core type."
        figures.append(Figure(name, caption, plot, height=row_height(shown)))
    misses = ("l2_misses_per_1000", "l3_misses_per_1000", "port_pct")
    if not figures and not any(row[column] is not None for row in answer.rows for column in misses):
        return Nothing(
            "no counters of misses, stalls, ports or slots were recorded; see collect --counters"
        )
    return Section(
        "Retiring slots do useful work. A thread that waits for L3 or memory gains from a smaller "
        "working set or fewer neighbors, not from a faster core.",
        view.step_window(),
        tuple(figures),
        (answer, view.ask("counter_meaning", trace_id=view.trace_id).fold()),
    )
