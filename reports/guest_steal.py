"""What the host did with the CPUs of guests while they looked busy."""

from __future__ import annotations

from schedlens.output.wording import count
from schedlens.report.figures import bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Guests"
ORDER = 165
FIGURES = {
    "shares": "busy time of each CPU of each guest by what the host did",
}

_MOST_BARS = 40


def section(view: View) -> Section | Nothing:
    """Busy time of guests' CPUs as the host saw it, and the threads that it hit."""
    answer = view.ask_each("guest_steal", "steal_ns DESC, trace_id, cpu").without(
        "trace_id", "host_trace_id", "host_utid"
    )
    rows = [row for row in answer.rows if row["busy_ns"]][:_MOST_BARS]
    if not rows:
        return Nothing("no guest of trace-cmd was analyzed together with its host")
    labels = unique(f"{short(row['guest'] or 'guest', 24)} CPU {row['cpu']}" for row in rows)
    parts = (
        ("the host ran it", "host_running_ns"),
        ("ready in the host (steal)", "steal_ns"),
        ("blocked in the host", "host_blocked_ns"),
        ("unknown", "host_unknown_ns"),
    )
    bars = [
        bar(name, labels, [ms(row[column]) for row in rows], place, unit="ms")
        for place, (name, column) in enumerate(parts)
    ]
    most = rows[0]
    caption = (
        f"Busy time of {count(len(rows), 'CPU')} of guests. The host let {labels[0]} wait longest: "
        f"{most['steal_ns'] / 1e6:,.3f} ms, {most['steal_pct']:.1f} % of its busy time."
    )
    threads = view.ask_each("guest_thread_summary", "steal_ns DESC, trace_id, utid")
    return Section(
        "A CPU of a guest is a thread of the host. While the host lets it wait, the guest's own "
        "recording shows a thread that runs.",
        "The window of the guest's recording; threads: the time of both recordings.",
        (Figure("shares", caption, rows_across(bars, "ms"), height=row_height(len(rows))),),
        (answer, threads),
    )
