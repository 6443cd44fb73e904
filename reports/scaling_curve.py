"""Throughput against threads, one curve per placement, and what the siblings add."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import Plot, axis, line
from schedlens.report.rates import by_kernel, digits, scaled, unit_text
from schedlens.report.sections import Answer, Figure, Nothing, Rows, Section, View

HEADING = "Scaling"
ORDER = 20
# Of sessions of this kind it answers the question.
ANSWERS = "sweep"
FIGURES = {
    "throughput": "throughput by number of threads and placement, one figure for each kernel",
}

_MOST_KERNELS = 6
_ORDER = {"default": 0, "physical": 1, "siblings": 2, "pinned": 3}


def section(view: View) -> Section | Nothing:
    """The scaling curves of all workloads in the database."""
    answer = view.ask("scaling_curve")
    if not answer.rows:
        return Nothing(
            "no sweep of thread counts was recorded; `collect --workload sha256 --threads 1..max` "
            "records one"
        )
    figures = [
        _figure(kernel, found)
        for kernel, found in by_kernel(answer.rows, _MOST_KERNELS)
        # A single point is no curve: the table has it.
        if len({row["threads"] for row in found}) > 1
    ]
    lead = (
        "`physical` fills whole cores first, `siblings` fills core by core, `default` leaves the "
        "choice to the system. Where `physical` bends, all cores are in use, and the rest of the "
        "curve is the gain of second threads on busy cores."
    )
    return Section(
        lead,
        view.all_windows(),
        tuple(figures),
        (answer.fold() if figures else answer, _gain(view)),
    )


def _gain(view: View) -> Answer:
    """What a second thread gains, folded if no row has it."""
    answer = view.ask("smt_yield")
    return answer if any(row["yield"] is not None for row in answer.rows) else answer.fold()


def _figure(kernel: str, rows: Rows) -> Figure:
    unit = rows[0]["unit"]
    size, text = unit_text(unit, max((row["per_s"] or 0) for row in rows))
    placements = sorted({row["placement"] for row in rows}, key=lambda name: _ORDER.get(name, 9))
    traces: list[Plot] = []
    for index, placement in enumerate(placements):
        points = [row for row in rows if row["placement"] == placement]
        trace = line(
            placement,
            [row["threads"] for row in points],
            scaled(points, "per_s", size),
            index,
            unit=text,
            detail=[_detail(row) for row in points],
        )
        spread = [row for row in points if row["repeats"] > 1]
        if spread:
            high, low, middle = (
                scaled(points, c, size) for c in ("high_per_s", "low_per_s", "per_s")
            )
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": [_gap(a, b) for a, b in zip(high, middle, strict=True)],
                "arrayminus": [_gap(a, b) for a, b in zip(middle, low, strict=True)],
                "width": 3,
                "color": "@mid",
            }
        traces.append(trace)
    ends = [_end(placement, rows, size, text) for placement in placements]
    caption = (
        f"Throughput of {kernel} by number of threads, all workers together. With the most "
        f"threads: {'; '.join(ends)}."
    )
    layout = {
        "xaxis": axis("threads", rangemode="tozero", dtick=1 if len(rows) <= 72 else None),
        "yaxis": axis(text, rangemode="tozero"),
        "hovermode": "closest",
    }
    return Figure(
        "throughput", caption, {"data": traces, "layout": layout}, height=400, item=kernel
    )


def _gap(high: float | None, low: float | None) -> float:
    return 0.0 if high is None or low is None else high - low


def _detail(row: dict[str, Any]) -> str:
    parts = []
    if row["speedup"] is not None:
        parts.append(f"{row['speedup']:.2f}× one thread")
    if row["added_thread_pct"] is not None:
        parts.append(f"each added thread gained {row['added_thread_pct']:.0f} % of one alone")
    if row["oversubscribed"]:
        parts.append("more threads than CPUs")
    return ", ".join(parts) or "one point"


def _end(placement: str, rows: Rows, size: float, text: str) -> str:
    last = max((row for row in rows if row["placement"] == placement), key=lambda r: r["threads"])
    if last["per_s"] is None:
        return f"{placement} unknown"
    rate = f"{placement} {digits(last['per_s'] / size)} {text} with {last['threads']}"
    return rate if last["speedup"] is None else f"{rate} ({last['speedup']:.1f}× one thread)"
