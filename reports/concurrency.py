"""How many logical CPUs were busy at once."""

from __future__ import annotations

from schedlens.figures import axis, bar
from schedlens.sections import Figure, Nothing, Section, View
from schedlens.time_strips import capacity

HEADING = "Concurrency"
ORDER = 95

_BANDS = (("p", "P or uniform", 0), ("e", "E", 2), ("other", "other", 3), ("smt", "siblings", 1))


def section(view: View) -> Section | Nothing:
    """Share of the window at each number of busy CPUs, split by what they were."""
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
    caption = (
        f"Share of the window at each number of busy logical CPUs: {mean:.2f} on average, most "
        f"often {most['busy']} ({most['pct']:.1f} % of the time)."
    )
    lines = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
         "line": {"color": "@dark", "dash": dash, "width": 1.5}}
        for (x, _), dash in zip(limits, ("dot", "dashdot", "dash"), strict=False)
    ]  # fmt: skip
    notes = [
        {"x": x, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": "right",
         "showarrow": False, "text": name, "font": {"size": 11}}
        for x, name in limits
    ]  # fmt: skip
    plot = {
        "data": traces,
        "layout": {
            "barmode": "stack",
            "xaxis": axis("busy logical CPUs", dtick=1 if len(rows) <= 40 else None),
            "yaxis": axis("percent of the window", rangemode="tozero"),
            "shapes": lines,
            "annotations": notes,
            "legend": {"orientation": "h", "y": 1.08, "yanchor": "bottom", "x": 0},
            "margin": {"l": 60, "r": 20, "t": 56, "b": 44},
        },
    }
    return Section(
        "Bars at the right edge mean a full machine, where only less work helps; bars far to the "
        "left mean work that waits for one thread. Beyond the last line but one (`P + E` or "
        "`all cores`) every further thread shares a core.",
        view.step_window(),
        (Figure(caption, plot),),
        (answer, view.ask_step("concurrency_process", process=view.process).fold()),
    )
