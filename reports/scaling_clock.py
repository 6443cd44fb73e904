"""The experiment `scaling` apart from its curves: clock by cores in use, Y, table 1."""

from __future__ import annotations

from schedlens.report.figures import Plot, axis, line, with_interval
from schedlens.report.rates import digits, unit_text
from schedlens.report.sections import Figure, Nothing, Rows, Section, View

HEADING = "Clock and yield by cores in use"
ORDER = 21
FIGURES = {
    "clock": "clock of a core by number of threads",
    "throughput": "throughput of one thread by number of threads",
}


def section(view: View) -> Section | Nothing:
    """Clock and throughput of a thread by cores in use, Y, and the three numbers."""
    turbo, yields = view.ask("scaling_clock"), view.ask("core_yield")
    if not turbo.rows and not yields.rows:
        return Nothing(
            "clock and yield by cores in use were not measured; run `collect --experiment scaling`"
        )
    lead = view.details("scaling_clock")
    meaning = (
        "The first table compares three numbers with one thread on each core: CPU use as the "
        "system reports it, work done relative to what the cores could do, and use of the "
        "multipliers."
    )
    figures = [*_clock(turbo.rows), *_rate(turbo.rows)]
    if all(row["yield"] is None for row in yields.rows):
        yields = yields.fold()
    answers = (view.ask("use_of_cores"), yields, turbo)
    return Section(f"{lead} {meaning}".strip(), view.all_windows(), tuple(figures), answers)


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


def _counts(rows: Rows) -> list[int]:
    return [row["threads"] for row in rows]
