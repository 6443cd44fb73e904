"""What each thread did: running, ready and waiting time, and its longest ready time."""

from __future__ import annotations

from schedlens.report.figures import (
    MOST_SOUGHT,
    bar,
    ms,
    row_height,
    rows_across,
    thread_label,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Threads"
ORDER = 100
# Of sessions of this kind it answers the question.
ANSWERS = "time"
FIGURES = {
    "states": "running, ready and waiting time by thread",
}

_MOST_BARS = 20
# Sums, counts and maxima of one kind together; the rest after them.
_FIRST = (
    "thread", "tid", "run_ns", "ready_ns", "ready_count", "ready_max_ns", "wait_ns", "waits",
    "wait_max_ns", "switches_in", "process",
)  # fmt: skip
_LAST = {*_FIRST, "trace_id", "utid", "new_ns", "migrations_unknown"}


def section(view: View) -> Section | Nothing:
    """The threads of the step in view, those with the most running and ready time first."""
    answer = view.ask_step("thread_summary", process=view.process)
    if not answer.rows:
        return Nothing("no thread has any time in this window; choose another with --from and --to")
    rows = sorted(answer.rows, key=lambda row: -(row["run_ns"] + row["ready_ns"]))[:MOST_SOUGHT]
    shown = min(len(rows), _MOST_BARS)
    labels = unique(thread_label(row) for row in rows)
    worst = [
        "" if row["ready_max_ns"] is None else f"longest ready {row['ready_max_ns'] / 1e6:,.3f} ms"
        for row in rows
    ]
    plot = rows_across(
        [
            bar("running", labels, [ms(r["run_ns"]) for r in rows], 0, unit="ms", detail=worst),
            bar("ready", labels, [ms(r["ready_ns"]) for r in rows], 1, unit="ms", detail=worst),
            bar("waiting", labels, [ms(r["wait_ns"]) for r in rows], 0, unit="ms", colour="@pale"),
            bar("unknown", labels, [ms(r["unknown_ns"] or None) for r in rows], 3, unit="ms",
                colour="@mid"),
        ],
        "ms of the window",
        sought=[thread_words(row) for row in rows],
        first=_MOST_BARS,
    )  # fmt: skip
    longest = max(
        (row for row in answer.rows if row["ready_max_ns"] is not None),
        key=lambda row: row["ready_max_ns"],
        default=None,
    )
    longest_wait = (
        "No ready time is known."
        if longest is None
        else f"The longest single wait for a CPU was {longest['ready_max_ns'] / 1e6:,.3f} ms, by "
        f"{thread_label(longest)}."
    )
    caption = f"Time by state of the {shown} busiest of {len(answer.rows)} threads. {longest_wait}"
    return Section(
        "Ready means runnable but not running: the time to win back. Waiting means blocked, which "
        "is often fine. Unknown means that the recording does not contain the state.",
        view.step_window(),
        (Figure("states", caption, plot, height=row_height(shown)),),
        (
            answer.showing(*_FIRST, *(name for name in answer.names if name not in _LAST)),
            view.ask_step("process_summary", process=view.process).fold(),
        ),
    )
