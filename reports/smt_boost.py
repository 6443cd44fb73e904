"""SMT and boost for a service: requests, latency and energy in each state."""

from __future__ import annotations

from schedlens.report.figures import Plot, axis, bar, line, with_interval
from schedlens.report.sections import Figure, Nothing, Rows, Section, View

HEADING = "SMT and boost"
ORDER = 15
FIGURES = {
    "requests": "requests per second in each cell",
    "latency": "latency by percentile in each cell",
}


def section(view: View) -> Section | Nothing:
    """The cells of the experiment `smt-boost`."""
    answer = view.ask("smt_boost")
    rows = [row for row in answer.rows if row["per_s"] is not None]
    if answer.rows and not rows:
        return Section(view.details("smt_boost"), view.all_windows(), (), (answer,))
    if not rows:
        return Nothing(
            "SMT and boost were not switched; run `collect --experiment smt-boost`, which switches "
            "what the machine allows"
        )
    lead = view.details("smt_boost")
    lead += " Whiskers are the intervals over the repeats."
    latency = view.ask("cell_latency")
    figures = [_requests(rows)]
    known = [row for row in latency.rows if row["latency_ns"] is not None]
    if known:
        figures.append(_latency(known))
    answers = (answer, latency, view.ask("smt_boost_latency"))
    return Section(lead, view.all_windows(), tuple(figures), answers)


def _requests(rows: Rows) -> Figure:
    labels = [row["cell"] for row in rows]
    traces: list[Plot] = [
        with_interval(
            bar("as measured", labels, [row["per_s"] for row in rows], 0, unit="/s", across=False),
            rows, ("per_s_low", "per_s", "per_s_high"),
        ),
        bar("divided by the busy share", labels, [row["normalised_per_s"] for row in rows], 1,
            unit="/s", across=False),
    ]  # fmt: skip
    best = max(rows, key=lambda row: row["per_s"])
    caption = (
        f"Requests per second in each cell. The highest: {best['per_s']:,.0f} in {best['cell']}."
    )
    layout = {
        "barmode": "group",
        "xaxis": axis("", type="category", automargin=True),
        "yaxis": axis("requests per second", rangemode="tozero"),
    }
    return Figure("requests", caption, {"data": traces, "layout": layout})


def _latency(rows: Rows) -> Figure:
    traces = []
    for index, cell in enumerate(dict.fromkeys(row["cell"] for row in rows)):
        mine = [row for row in rows if row["cell"] == cell]
        names = [f"p{row['percentile']:g}" for row in mine]
        times = [row["latency_ns"] / 1e3 for row in mine]
        trace = line(cell, names, times, index, unit="us")
        ends = ("low_ns", "latency_ns", "high_ns")
        traces.append(with_interval(trace, mine, ends, size=1e3))
    worst = max(rows, key=lambda row: row["latency_ns"])
    caption = (
        "Latency by percentile, while at least 10 requests are beyond it; the highest is "
        f"{worst['latency_ns'] / 1e3:,.0f} us (p{worst['percentile']:g}, {worst['cell']})."
    )
    layout = {"xaxis": axis("", type="category"), "yaxis": axis("us", type="log")}
    return Figure("latency", caption, {"data": traces, "layout": layout})
