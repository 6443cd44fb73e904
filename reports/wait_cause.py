"""What threads waited for."""

from __future__ import annotations

from schedlens.output.wording import duration
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

HEADING = "What threads waited for"
ORDER = 102
FIGURES = {"causes": "waiting time by thread and cause"}

_MOST_BARS = 20
# Those that a program can shorten come first.
_CAUSES = (
    ("page_fault", "page faults", "@red", 4),
    ("disk", "disk requests", "@yellow", 2),
    ("memory", "free memory", "@purple", 3),
    ("io", "I/O", "@orange", 1),
    ("kernel_lock", "kernel locks", "@brown", 6),
    ("user_lock", "locks", "@pink", 7),
    ("message", "messages", "@teal", 5),
    ("thread", "other threads", "@blue", 0),
    ("queue", "work", "@green", 2),
    ("object", "objects or I/O", "@mid", 0),
    ("interrupt", "timers or devices", "@mid", 1),
    ("sleep", "sleep", "@line", 0),
    ("stopped", "stopped", "@line", 3),
    ("unknown", "unknown", "@mid", 3),
)


def section(view: View) -> Section | Nothing:
    """The threads of the step in view that waited longest for something other than time."""
    answer = view.ask_step("wait_cause", process=view.process)
    spent: dict[int, dict[str, int]] = {}
    for row in answer.rows:
        spent.setdefault(row["utid"], {})[row["cause"]] = row["wait_ns"]
    if not spent or {cause for of in spent.values() for cause in of} <= {"unknown"}:
        return Nothing("why threads waited is not recorded")

    def weight(utid: int) -> int:
        idle = ("sleep", "stopped", "queue", "interrupt", "unknown")
        return sum(ns for cause, ns in spent[utid].items() if cause not in idle)

    chosen = sorted(spent, key=lambda utid: (-weight(utid), utid))[:MOST_SOUGHT]
    shown = min(len(chosen), _MOST_BARS)
    first = {row["utid"]: row for row in answer.rows}
    labels = unique(thread_label(first[utid]) for utid in chosen)
    plot = rows_across(
        [
            bar(name, labels, [ms(spent[utid].get(cause)) for utid in chosen], index, unit="ms",
                colour=colour)
            for cause, name, colour, index in _CAUSES
            if any(cause in spent[utid] for utid in chosen)
        ],
        "ms waiting",
        sought=[thread_words(first[utid]) for utid in chosen],
        first=_MOST_BARS,
    )  # fmt: skip
    total = {
        cause: sum(of.get(cause, 0) for of in spent.values())
        for cause in ("page_fault", "disk", "io")
    }
    absent = [
        row["name"]
        for row in view.rows(
            "SELECT name, bool_or(recorded) AS known FROM recorded_kind() "
            "WHERE kind IN ('page_faults', 'disk_requests') GROUP BY name ORDER BY name"
        )
        if not row["known"]
    ]
    caption = (
        f"Waiting time of {shown} of {len(spent)} threads by cause. All threads together waited "
        f"{duration(total['page_fault'])} for page faults and "
        f"{duration(total['disk'] + total['io'])} for I/O, as far as recorded."
    )
    return Section(
        "Waits for page faults, I/O and locks are time to win back; waiting for work or time is "
        "not. On Linux, I/O is an uninterruptible wait that an interrupt ends."
        + (f" Not recorded: {' and '.join(absent)}." if absent else ""),
        view.step_window(),
        (Figure("causes", caption, plot, height=row_height(shown)),),
        (answer, view.ask_step("pressure")),
    )
