"""Threads that hand one CPU to each other only when their quantum ends."""

from __future__ import annotations

from schedlens.report.figures import MOST_SOUGHT, bar, ms, row_height, rows_across, short, unique
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Quantum-end chains"
ORDER = 130
FIGURES = {
    "longest": "the longest chains by length",
}

_MOST_BARS = 16


def section(view: View) -> Section | Nothing:
    """The chains of all recordings, longest serialized time first."""
    answer = view.ask_each("quantum_end_chain", "trace_id, chain", process=view.process)
    if not answer.rows:
        return Nothing(
            "no 3 hand-offs in a row at the end of a quantum, among at most 8 threads, were found"
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
    lead = (
        "The only chain:"
        if len(answer.rows) == 1
        else f"The {shown} worst of {len(answer.rows)} chains. The first:"
    )
    caption = (
        f"{lead} CPU {longest['cpu']}, "
        f"{longest['dur'] / 1e6:,.3f} ms long, {longest['serialized_ns'] / 1e6:,.3f} ms of it "
        "while another CPU that a waiting thread may use was idle or parked."
    )
    return Section(
        "Each hand-off costs a whole quantum. Two threads that only alternate point to a spin "
        "hand-off: let the waiting thread block, or give each thread its own CPU. The allowed CPUs "
        "show whether the scheduler had a choice.",
        view.all_windows(),
        (Figure("longest", caption, plot, height=row_height(shown, each=34)),),
        (answer.without("trace_id", "utids"),),
    )
