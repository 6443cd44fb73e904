"""CPU use as the system reports it against what is really used."""

from __future__ import annotations

from schedlens.report.figures import bar, rows_across, short, unique
from schedlens.report.sections import Answer, Figure, Nothing, Section, View

HEADING = "Reported and real use"
ORDER = 50
FIGURES = {
    "use": "reported busy share, cores in use, and work done by step",
}

_MOST_BARS = 9


def section(view: View) -> Section | Nothing:
    """One row per step."""
    answer = view.ask("reported_vs_real")
    rows = [
        row
        for row in answer.rows
        if row["traced_busy_pct"] is not None
        and not (row["reported_busy_pct"] is None and row["work_low_pct"] is None)
    ]
    if not rows:
        return Nothing(
            "neither the system's own figure nor the work done is known; `collect --workload` "
            "records both"
        )
    chosen = rows
    if len(rows) > _MOST_BARS:
        # Of a long sweep, draw every few thread counts, including the ends.
        counts = sorted({row["threads"] or 0 for row in rows})
        each = max(1, -(-len(rows) // _MOST_BARS))
        kept = set(counts[::each]) | {counts[-1]}
        chosen = [row for row in rows if (row["threads"] or 0) in kept]
    names = view.labels()
    labels = unique(short(row["step"] or names.get(row["trace_id"]), 34) for row in chosen)
    work = [
        None
        if row["work_low_pct"] is None or row["work_high_pct"] is None
        else (row["work_low_pct"] + row["work_high_pct"]) / 2
        for row in chosen
    ]
    span = [
        ""
        if row["work_low_pct"] is None
        else f"{row['work_low_pct']:.1f} to {row['work_high_pct']:.1f} %, yield "
        f"{row['yield_basis']}"
        for row in chosen
    ]
    traces = [
        bar(
            "reported by the system", labels, [r["reported_busy_pct"] for r in chosen], 0, unit="%"
        ),
        bar("cores with a busy CPU", labels, [r["cores_busy_pct"] for r in chosen], 1, unit="%"),
        bar("work done of what is possible", labels, work, 2, unit="%", detail=span),
    ]
    if any(row["port_pct"] is not None for row in chosen):
        traces.append(bar("multiplier slots", labels, [r["port_pct"] for r in chosen], 3, unit="%"))
    traces[2]["error_x"] = {
        "type": "data",
        "array": [
            0.0 if row["work_low_pct"] is None else (row["work_high_pct"] - row["work_low_pct"]) / 2
            for row in chosen
        ],
        "color": "@dark",
        "width": 3,
    }
    plot = rows_across(traces, "percent", stacked=False)
    plot["layout"]["xaxis"]["range"] = [0, 105]
    skipped = "" if len(chosen) == len(rows) else f" Shows {len(chosen)} of {len(rows)} steps."
    caption = (
        "Busy share as the system reports it, cores in use, and the work done in percent of what "
        f"all cores could do.{skipped}"
    )
    lead = (
        "The system counts a core with one busy sibling as half busy, although little capacity is "
        "left. If the first bar is far below the third, the machine is fuller than it looks. "
        "`yield basis` says whether the gain of a second thread was measured or assumed."
    )
    return Section(
        lead,
        view.all_windows(),
        (Figure("use", caption, plot, height=min(640, 130 + 56 * len(chosen))),),
        (answer.without("trace_id", *_empty(answer)),),
    )


def _empty(answer: Answer) -> list[str]:
    """Columns without a value in any row: a column of dashes says nothing."""
    return [name for name in answer.names if all(row[name] is None for row in answer.rows)]
