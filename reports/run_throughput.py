"""Throughput of each worker: whether all get the same, and what a busy SMT sibling costs."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import COLOURS, SYMBOLS, Plot, axis
from schedlens.report.rates import by_kernel, digits, scaled, unit_text
from schedlens.report.sections import Figure, Nothing, Rows, Section, View

HEADING = "Throughput per thread"
ORDER = 30
FIGURES = {
    "workers": "throughput of each worker, one figure for each kernel",
}

_MOST_KERNELS = 6
_ORDER = {"default": 0, "physical": 1, "siblings": 2, "pinned": 3}


def section(view: View) -> Section | Nothing:
    """The rate of each worker in each step, by placement."""
    steps = view.ask("run_throughput")
    if not steps.rows:
        return Nothing("no built-in workload was recorded; `collect --workload sha256` records one")
    workers = view.ask_each("worker_throughput", "trace_id, worker")
    by_step = {row["trace_id"]: row for row in steps.rows}
    placed = [
        {
            **row,
            **{
                key: by_step[row["trace_id"]][key]
                for key in ("workload", "variant", "placement", "threads")
            },
        }
        for row in workers.rows
        if row["trace_id"] in by_step and by_step[row["trace_id"]]["unit"] is not None
    ]
    several = [row for row in placed if row["threads"] > 1]
    # A single worker has nothing to compare with: its rate is in the table.
    compared = {(row["workload"], row["variant"]) for row in several}
    shown = [row for row in placed if (row["workload"], row["variant"]) in compared]
    figures = [_figure(kernel, found) for kernel, found in by_kernel(shown, _MOST_KERNELS)]
    table = steps.without("trace_id", "variant", "placements")
    return Section(
        "Each point is one worker. Level rows mean that every worker has its own core. Two levels "
        "in one column mean that some workers share a core. A wide spread means that workers "
        "moved.",
        "Each worker over its own measured interval, in all steps.",
        tuple(figures),
        (table.fold() if figures else table, workers.fold()),
    )


def _figure(kernel: str, rows: Rows) -> Figure:
    size, text = unit_text(rows[0]["unit"], max((row["per_s"] or 0) for row in rows))
    placements = sorted(
        {row["placement"] or "not placed" for row in rows}, key=lambda name: _ORDER.get(name, 9)
    )
    traces: list[Plot] = []
    for index, placement in enumerate(placements):
        found = [row for row in rows if (row["placement"] or "not placed") == placement]
        shift = (index - (len(placements) - 1) / 2) * 0.22
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": placement,
                "x": [row["threads"] + shift for row in found],
                "y": scaled(found, "per_s", size),
                "marker": {
                    "symbol": SYMBOLS[index % len(SYMBOLS)] + ("-open" if index % 2 else ""),
                    "size": 6,
                    "color": COLOURS[index % len(COLOURS)],
                },
                "customdata": [_detail(row) for row in found],
                "hovertemplate": f"{placement}, %{{customdata}}<br>%{{y:,.1f}} {text}"
                "<extra></extra>",
            }
        )
    rates = [rate for rate in scaled(rows, "per_s", size) if rate is not None]
    low, high = (min(rates), max(rates)) if rates else (0.0, 0.0)
    caption = (
        f"Throughput of each worker of {kernel}: from {digits(low)} to "
        f"{digits(high)} {text} over all steps."
    )
    counts = sorted({row["threads"] for row in rows})
    # Label each of a few thread counts, and never half a thread.
    ticks = {"tickvals": counts} if len(counts) <= 24 else {}
    layout = {
        "xaxis": axis("threads of the step", range=[counts[0] - 0.5, counts[-1] + 0.5], **ticks),
        "yaxis": axis(f"{text} per worker", rangemode="tozero"),
        "hovermode": "closest",
    }
    return Figure("workers", caption, {"data": traces, "layout": layout}, item=kernel)


def _detail(row: dict[str, Any]) -> str:
    pinned = "not pinned" if row["cpu"] is None else f"CPU {row['cpu']}"
    return f"{row['threads']} threads, worker {row['worker']}, {pinned}"
