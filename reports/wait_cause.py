"""What threads waited for."""

from __future__ import annotations

from schedlens.output.wording import duration
from schedlens.report.figures import MOST_SOUGHT
from schedlens.report.sections import Figure, Nothing, Section, View
from schedlens.report.thread_bars import by_thread

HEADING = "What threads waited for"
ORDER = 102
FIGURES = {"causes": "waiting time by thread and cause"}

# Those that a program can shorten come first.
_CAUSES = (
    ("page_fault_ns", "page faults", "@red", 4),
    ("disk_ns", "disk requests", "@yellow", 2),
    ("memory_ns", "free memory", "@purple", 3),
    ("io_ns", "I/O", "@orange", 1),
    ("kernel_lock_ns", "kernel locks", "@brown", 6),
    ("user_lock_ns", "locks", "@pink", 7),
    ("message_ns", "messages", "@teal", 5),
    ("thread_ns", "other threads", "@blue", 0),
    ("queue_ns", "work", "@green", 2),
    ("object_ns", "objects or I/O", "@mid", 0),
    ("interrupt_ns", "timers or devices", "@mid", 1),
    ("sleep_ns", "sleep", "@line", 0),
    ("stopped_ns", "stopped", "@line", 3),
    ("unknown_ns", "unknown", "@mid", 3),
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
    named = {row["utid"]: row for row in answer.rows}
    plot, shown, height = by_thread(
        [{**named[utid], **_columns(spent[utid])} for utid in chosen], _CAUSES, "ms waiting"
    )
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
        (Figure("causes", caption, plot, height=height),),
        (answer, view.ask_step("pressure")),
    )


def _columns(spent: dict[str, int]) -> dict[str, int]:
    """A column for each cause; `thread` is a cause, too."""
    return {f"{cause}_ns": ns for cause, ns in spent.items()}
