"""Threads that hand one CPU to each other only when their slice is used up."""

from __future__ import annotations

from schedlens.report.figures import MOST_SOUGHT, bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Quantum-end chains"
ORDER = 130

_MOST_BARS = 30


def section(view: View) -> Section | Nothing:
    """The chains of all recordings, those that were serialized for longest first."""
    answer = view.ask_each("quantum_end_chain", "trace_id, chain", process=view.process)
    if not answer.rows:
        return Nothing(
            "no 3 hand-offs in a row at the end of a slice among at most 8 threads were seen"
        )
    rows = sorted(answer.rows, key=lambda row: (-row["serialized_ns"], -row["dur"]))[:MOST_SOUGHT]
    shown = min(len(rows), _MOST_BARS)
    names = view.labels()
    several = len(names) > 1
    labels = unique(
        f"CPU {row['cpu']}, {', '.join(short(name, 16) for name in (row['threads'] or [])[:2])}"
        + (f", {short(names[row['trace_id']], 24)}" if several else "")
        for row in rows
    )
    detail = [f"{row['hand_offs']} hand-offs, slice {row['slice_ns'] / 1e6:.3f} ms" for row in rows]
    plot = rows_across(
        [
            bar("serialized", labels, [ms(row["serialized_ns"]) for row in rows], 4, unit="ms",
                detail=detail),
            bar("any other CPU idle", labels, [ms(row["idle_elsewhere_ns"]) for row in rows], 1,
                unit="ms", detail=detail),
            bar("whole length", labels, [ms(row["dur"]) for row in rows], 0, unit="ms",
                detail=detail),
        ],
        "ms",
        stacked=False,
        sought=[" ".join(short(name, 80) for name in row["threads"] or []) for row in rows],
        first=_MOST_BARS,
    )  # fmt: skip
    longest = rows[0]
    caption = (
        f"The {shown} worst of {len(answer.rows)} chains. The first: CPU {longest['cpu']}, "
        f"{longest['dur'] / 1e6:,.3f} ms long, {longest['serialized_ns'] / 1e6:,.3f} ms of it "
        "while another CPU that a waiting thread may use was idle or parked."
    )
    return Section(
        "Each hand-over costs a whole slice. Partners that only repeat each other point to a spin "
        "hand-off: let the waiter block, or give the two threads a CPU each. Look at the allowed "
        "CPUs for the reason why the scheduler had no choice.",
        view.all_windows(),
        (Figure(caption, plot, height=row_height(shown, each=34)),),
        (answer.without("trace_id", "utids"),),
    )
