"""Pinned request loops placed by number and by topology: latency of each shard."""

from __future__ import annotations

from schedlens.report.figures import Plot, bar, row_height, rows_across, with_interval
from schedlens.report.sections import Figure, Nothing, Rows, Section, View

HEADING = "Shards"
ORDER = 14
FIGURES = {
    "latency": "latency of each shard",
}


def section(view: View) -> Section | Nothing:
    """The cells of the experiment `shards`."""
    answer = view.ask("shard_latency")
    if not answer.rows:
        return Nothing("no shards were measured; `collect --experiment shards` does")
    lead = view.details("shard_latency")
    each = [row for row in answer.rows if row["worker"] is not None]
    return Section(
        f"{lead} Latency counts from the intended arrival of a request. Whiskers are confidence "
        "intervals of the p99 over the repeats.".strip(),
        view.all_windows(),
        (_figure(each),),
        (answer, view.ask("cell_latency")),
    )


def _figure(rows: Rows) -> Figure:
    labels = [f"{row['place']} shard {row['worker']}, CPU {row['cpu']}" for row in rows]
    traces: list[Plot] = []
    for index, (name, column) in enumerate((("p50", "p50_ns"), ("p99", "p99_ns"))):
        times = [None if row[column] is None else row[column] / 1e3 for row in rows]
        trace = bar(name, labels, times, index, unit="us")
        if name == "p99":
            with_interval(
                trace, rows, ("p99_low_ns", "p99_ns", "p99_high_ns"), size=1e3, across=True
            )
        traces.append(trace)
    plot = rows_across(traces, "us from the intended arrival", stacked=False)
    known = [row for row in rows if row["p99_ns"] is not None]
    caption = "Latency of each shard."
    if known:
        worst = max(known, key=lambda row: row["p99_ns"])
        caption = (
            f"Latency of each shard. The highest p99 is {worst['p99_ns'] / 1e3:,.0f} us: "
            f"{worst['place']}, shard {worst['worker']} on CPU {worst['cpu']}."
        )
    return Figure("latency", caption, plot, height=row_height(2 * len(rows)))
