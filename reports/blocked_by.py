"""In which code threads wait, and which code of which thread ends the wait."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Who ends waits, by code"
ORDER = 35
FIGURES = {"waits": "waiting time by code that waits and code that wakes"}

_MOST_BARS = 20
_IDS = (
    "trace_id", "utid", "stack_id", "waker_stack_id", "waker_utid", "folded", "waker_folded",
)  # fmt: skip


def section(view: View) -> Section | Nothing:
    """The pairs of waiting and waking code with most waiting time."""
    answer = view.ask_step("blocked_by", process=view.process)
    rows = sorted(answer.rows, key=lambda row: -row["wait_ns"])[:_MOST_BARS]
    rows = [row for row in rows if row["wait_ns"] > 0]
    if not rows:
        return Nothing("no stacks of waits were recorded; `collect --stacks` records them")
    labels = unique(
        short(f"{row['thread']}: {row['frame']}, by {row['waker_thread'] or 'an interrupt'}", 70)
        for row in rows
    )
    plot = rows_across(
        [bar("waiting", labels, [row["wait_ns"] / 1e6 for row in rows], 0, unit="ms")], "ms"
    )
    most = rows[0]
    caption = (
        f"The {len(rows)} pairs with most waiting time. Most: {most['thread']} in "
        f"{most['frame']}, woken by {most['waker_thread'] or 'an interrupt'} in "
        f"{most['waker_frame']}."
    )
    return Section(
        "A thread that ends another one's wait for a lock held it.",
        view.step_window(),
        (Figure("waits", caption, plot, height=row_height(len(rows))),),
        (answer.without(*_IDS),),
    )
