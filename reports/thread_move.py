"""How often threads that are not pinned change their CPU, and after how long."""

from __future__ import annotations

from schedlens.output.wording import count, duration
from schedlens.report.figures import axis, bar
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Moves between CPUs"
ORDER = 101
FIGURES = {"intervals": "moves by the time since the move before"}


def section(view: View) -> Section | Nothing:
    """The distribution over all threads in view, and each thread with its median."""
    moves = view.ask_step("thread_move", process=view.process)
    spread = view.ask_step("thread_move_histogram", process=view.process)
    if not spread.rows:
        return Nothing("no thread continued on another CPU twice in this window")
    interval = view.call("move_interval", trace_id=view.trace_id, process=view.process)
    known = view.rows(
        "SELECT count(*) AS moves, count(DISTINCT utid) AS threads, "
        f"quantile_disc(after_ns, 0.5) AS median {interval} WHERE after_ns IS NOT NULL"
    )[0]
    labels = [f"≤ {duration(row['to_ns'])}" for row in spread.rows]
    plot = {
        "data": [
            bar(
                "moves", labels, [row["moves"] for row in spread.rows], 0, unit="moves",
                across=False, detail=[count(row["threads"], "thread") for row in spread.rows],
            )
        ],
        "layout": {
            "xaxis": {"type": "category", "automargin": True},
            "yaxis": axis("moves", rangemode="tozero"),
        },
    }  # fmt: skip
    caption = (
        f"{count(known['moves'], 'move')} of {count(known['threads'], 'thread')} by the time since "
        f"the move before; half of them within {duration(known['median'])}."
    )
    return Section(
        "A thread that moves to another core finds cold caches there. Threads that move every few "
        "milliseconds show how the system spreads load; pin only what is measured to gain.",
        view.step_window(),
        (Figure("intervals", caption, plot),),
        (moves, spread.fold()),
    )
