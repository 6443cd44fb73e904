"""Which thread wakes which."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import (
    MOST_SOUGHT,
    bar,
    ms,
    row_height,
    rows_across,
    short,
    thread_words,
    unique,
)
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Wakeups"
ORDER = 200
FIGURES = {
    "pairs": "ready time by pair of waker and woken thread",
}

_MOST_BARS = 24
_LEAD = "Follow a chain of wakeups upwards to the thread that others wait for."


def section(view: View) -> Section | Nothing:
    """Pairs of waker and woken thread in the step in view, most ready time first."""
    answer = view.ask_step("waker_pair", process=view.process).without(
        "trace_id", "utid", "waker_utid"
    )
    if not answer.rows:
        return Nothing(
            "no wakeup led to a switch-in here; record sched:sched_waking with `collect`"
        )
    waited = [row for row in answer.rows if row["ready_ns"]]
    if not waited:
        return Section(
            f"{_LEAD} No woken thread had to wait for a CPU here: every known ready time is 0.",
            view.step_window(),
            (),
            (answer,),
        )
    rows = sorted(waited, key=lambda row: -row["ready_ns"])[:MOST_SOUGHT]
    shown = min(len(rows), _MOST_BARS)
    labels = unique(f"{_waker(row)} → {short(row['thread'], 22)} {row['tid']}" for row in rows)
    plot = rows_across(
        [
            bar("ready after the wakeup", labels, [ms(row["ready_ns"]) for row in rows], 1,
                unit="ms", detail=[f"{row['wakings']:,} wakeups" for row in rows]),
        ],
        "ms of the window",
        sought=[f"{thread_words(row)} {thread_words(row, before='waker_')}" for row in rows],
        first=_MOST_BARS,
    )  # fmt: skip
    caption = (
        f"Ready time between wakeup and switch-in, the {shown} longest of {len(answer.rows)} pairs."
    )
    return Section(
        _LEAD,
        view.step_window(),
        (Figure("pairs", caption, plot, height=row_height(shown)),),
        (answer,),
    )


def _waker(row: dict[str, Any]) -> str:
    if row["from_idle"]:
        return "interrupt"
    return f"{short(row['waker_thread'], 22)} {row['waker_tid']}"
