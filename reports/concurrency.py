"""How many logical CPUs were busy at once."""

from __future__ import annotations

from typing import Any

from schedlens.report.figures import Plot, axis, bar, short
from schedlens.report.sections import Figure, Nothing, Rows, Section, View
from schedlens.report.timeline import capacity

HEADING = "Concurrency"
ORDER = 95
FIGURES = {
    "busy": "share of the window at each number of busy logical CPUs",
    "process": "the same for the threads of one process",
}

_BANDS = (("p", "P or uniform", 0), ("e", "E", 2), ("other", "other", 3), ("smt", "siblings", 1))


def section(view: View) -> Section | Nothing:
    """Share of the window at each number of busy CPUs: of the machine, and of the process."""
    answer = view.ask_step("concurrency")
    rows = answer.rows
    if not rows:
        return Nothing("no CPU has a state in this window; record scheduler events with `collect`")
    counts = [row["busy"] for row in rows]
    traces = []
    for column, name, index in _BANDS:
        if any(row[column] for row in rows):
            # Each bar has the height of its share of time, split by the mean make-up of its CPUs.
            share = [
                row["pct"] * row[column] / row["busy"] if row["busy"] else None for row in rows
            ]
            traces.append(bar(name, counts, share, index, unit="%", across=False))
    if any(row["busy"] == 0 for row in rows):
        idle = [row["pct"] if row["busy"] == 0 else None for row in rows]
        traces.insert(0, bar("all idle", counts, idle, 0, unit="%", across=False, colour="@mid"))
    mean = sum(row["busy"] * row["pct"] for row in rows) / 100
    most = max(rows, key=lambda row: row["pct"])
    limits = capacity(view)
    least = "at least " if any(row["unknown_ns"] for row in rows) else ""
    caption = (
        f"Share of the window at each number of busy logical CPUs: {least}{mean:.2f} on average, "
        f"most often {most['busy']} ({most['pct']:.1f} % of the time)."
    )
    figures = [Figure("busy", caption, _plot(traces, limits, "busy logical CPUs", len(rows)))]
    processes = view.ask_step("concurrency_process", process=view.process)
    own = _process(processes.rows, limits)
    if own is not None:
        figures.append(own)
    return Section(
        "Bars at the right edge mean that the machine is full and only less work helps. Bars far "
        "to the left mean that work waits for one thread. Beyond the second-to-last line (`P + E` "
        "or `all cores`) every further thread shares a core.",
        view.step_window(),
        tuple(figures),
        (answer, processes.fold(), view.ask_step("capacity_line").fold()),
    )


def _process(rows: Rows, limits: list[tuple[int, str]]) -> Figure | None:
    """The same for the process that ran most, with the same lines."""
    ran: dict[str, float] = {}
    for row in rows:
        if row["process"] is not None:
            ran[row["process"]] = ran.get(row["process"], 0) + row["running"] * row["pct"]
    if not ran:
        return None
    name = max(sorted(ran), key=lambda process: ran[process])
    mine = [row for row in rows if row["process"] == name]
    counts = [0, *(row["running"] for row in mine)]
    share = [max(0.0, 100 - sum(row["pct"] for row in mine)), *(row["pct"] for row in mine)]
    most = counts[share.index(max(share))]
    caption = (
        f"Share of the window at each number of threads of {short(name, 40)} running at once: "
        f"{ran[name] / 100:.2f} on average, most often {most} ({max(share):.1f} % of the time)."
    )
    traces = [bar(short(name, 40), counts, share, 5, unit="%", across=False)]
    plot = _plot(traces, limits, "threads of the process running at once", len(counts))
    return Figure("process", caption, plot)


def _plot(
    traces: list[Plot], limits: list[tuple[int, str]], title: str, columns: int
) -> dict[str, Any]:
    lines = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
         "line": {"color": "@dark", "dash": dash, "width": 1.5}}
        for (x, _), dash in zip(limits, ("dot", "dashdot", "dash"), strict=False)
    ]  # fmt: skip
    notes = [
        {"x": x, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": "right",
         "showarrow": False, "text": f"{name}: {x}", "font": {"size": 11}}
        for x, name in limits
    ]  # fmt: skip
    widest = max([*(x for x, _ in limits), columns])
    return {
        "data": traces,
        "layout": {
            "barmode": "stack",
            "showlegend": True,
            "xaxis": axis(title, dtick=1 if widest <= 40 else None),
            "yaxis": axis("percent of the window", rangemode="tozero"),
            "shapes": lines,
            "annotations": notes,
            "legend": {"orientation": "h", "y": 1.08, "yanchor": "bottom", "x": 0},
            "margin": {"l": 60, "r": 20, "t": 56, "b": 44},
        },
    }
