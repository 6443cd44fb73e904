"""The experiment `scaling` apart from its curves: clock by cores in use, Y, table 1."""

from __future__ import annotations

from schedlens.output.wording import count
from schedlens.report.figures import Plot, axis, line, with_interval
from schedlens.report.rates import digits, unit_text
from schedlens.report.sections import Figure, Nothing, Rows, Section, View

HEADING = "Clock and yield by cores in use"
ORDER = 21
FIGURES = {
    "clock": "clock of a core by number of threads",
    "throughput": "throughput of one thread by number of threads",
    "sustained": "clock over time by number of active cores",
}


def section(view: View) -> Section | Nothing:
    """Clock and throughput of a thread by cores in use, Y, and the three numbers."""
    turbo, yields = view.ask("scaling_clock"), view.ask("core_yield")
    sustained, over_time = view.ask("turbo_sustained"), view.ask("turbo_over_time")
    if not turbo.rows and not yields.rows and not sustained.rows:
        return Nothing(
            "clock and yield by cores in use were not measured; run `collect --experiment scaling`"
        )
    lead = view.details("scaling_clock")
    meaning = (
        "The first table compares three numbers with one thread on each core: CPU use as the "
        "system reports it, work done relative to what the cores could do, and use of the "
        "multipliers."
    )
    figures = [*_clock(turbo.rows), *_rate(turbo.rows), *_sustained(over_time.rows)]
    if all(row["yield"] is None for row in yields.rows):
        yields = yields.fold()
    answers = [view.ask("use_of_cores"), yields, turbo]
    if sustained.rows:
        answers += [sustained, over_time.fold()]
    return Section(f"{lead} {meaning}".strip(), view.all_windows(), tuple(figures), tuple(answers))


def _threads(rows: Rows) -> Plot:
    most = max(row["threads"] for row in rows)
    return axis("threads", rangemode="tozero", dtick=1 if most <= 24 else None)


def _clock(every: Rows) -> list[Figure]:
    """Empty if the clock is known for fewer than two thread counts."""
    rows = [row for row in every if row["ghz"] is not None]
    if len(rows) < 2:
        return []
    first, last = rows[0], rows[-1]
    clock = line("clock", _counts(rows), [row["ghz"] for row in rows], 0, unit="GHz")
    with_interval(clock, rows, ("ghz_low", "ghz", "ghz_high"))
    caption = (
        f"Clock of a core by number of threads, filling whole cores first: "
        f"{first['ghz']:.2f} GHz with {first['threads']}, {last['ghz']:.2f} GHz with "
        f"{last['threads']}."
    )
    layout = {"xaxis": _threads(rows), "yaxis": axis("GHz")}
    return [Figure("clock", caption, {"data": [clock], "layout": layout})]


def _rate(every: Rows) -> list[Figure]:
    """Empty if the throughput is known for fewer than two thread counts."""
    rows = [row for row in every if row["per_thread_per_s"] is not None]
    if len(rows) < 2:
        return []
    first, last = rows[0], rows[-1]
    size, unit = unit_text(first["unit"], max(row["per_thread_per_s"] for row in rows))
    rates = [row["per_thread_per_s"] / size for row in rows]
    caption = (
        f"Throughput of one thread: {digits(rates[0])} {unit} with {first['threads']}, "
        f"{digits(rates[-1])} with {last['threads']}."
    )
    layout = {"xaxis": _threads(rows), "yaxis": axis(unit, rangemode="tozero")}
    drawn = line("one thread", _counts(rows), rates, 1, unit=unit)
    return [Figure("throughput", caption, {"data": [drawn], "layout": layout})]


def _sustained(rows: Rows) -> list[Figure]:
    """The clock over time; empty if it was not measured."""
    if not rows:
        return []
    traces = []
    for index, cores in enumerate(dict.fromkeys(row["cores"] for row in rows)):
        mine = [row for row in rows if row["cores"] == cores]
        seconds, clocks = ([row[key] for row in mine] for key in ("second", "ghz"))
        traces.append(line(count(cores, "core"), seconds, clocks, index, unit="GHz"))
    caption = f"Clock over {rows[-1]['second']} s of load, by number of active cores."
    layout = {"xaxis": axis("s", rangemode="tozero"), "yaxis": axis("GHz")}
    return [Figure("sustained", caption, {"data": traces, "layout": layout})]


def _counts(rows: Rows) -> list[int]:
    return [row["threads"] for row in rows]
