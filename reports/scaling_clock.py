"""The experiment `scaling` beside its curves: clock by cores in use, Y, table 1."""

from __future__ import annotations

from schedlens.figures import axis, line, with_interval
from schedlens.sections import Figure, Nothing, Rows, Section, View
from schedlens.throughput import unit_text

HEADING = "Clock and yield by cores in use"
ORDER = 21


def section(view: View) -> Section | Nothing:
    """Clock and throughput of a thread against the cores in use, Y, and the three numbers."""
    turbo, yields = view.ask("scaling_clock"), view.ask("core_yield")
    if not turbo.rows and not yields.rows:
        return Nothing(
            "clock and yield were not measured by cores in use; `collect --experiment scaling` does"
        )
    told = view.rows(
        "SELECT title FROM finding WHERE analyzer = 'scaling_clock' ORDER BY severity, finding_id"
    )
    lead = " ".join(f"{row['title']}." for row in told[:3])
    meaning = (
        "The table of the three numbers: what the system reports, the work done of what the cores "
        "could do, and the use of the multipliers, one thread on each core."
    )
    figures = _figures(turbo.rows) if len(turbo.rows) > 1 else []
    answers = (view.ask("use_of_cores"), yields, turbo)
    return Section(f"{lead} {meaning}".strip(), view.all_windows(), tuple(figures), answers)


def _figures(rows: Rows) -> list[Figure]:
    cores = [row["threads"] for row in rows]
    clock = line("clock", cores, [row["ghz"] for row in rows], 0, unit="GHz")
    with_interval(clock, rows, ("ghz_low", "ghz", "ghz_high"))
    first, last = rows[0], rows[-1]
    made = [
        Figure(
            f"Clock of a core against the number of threads, whole cores first: "
            f"{first['ghz']:.2f} GHz with {first['threads']}, {last['ghz']:.2f} GHz with "
            f"{last['threads']}.",
            {
                "data": [clock],
                "layout": {"xaxis": axis("threads", rangemode="tozero"), "yaxis": axis("GHz")},
            },
        )
    ]
    size, unit = unit_text(first["unit"], max(row["per_thread_per_s"] or 0 for row in rows))
    rates = [row["per_thread_per_s"] / size for row in rows]
    made.append(
        Figure(
            f"Throughput of one thread: {rates[0]:,.1f} {unit} with {first['threads']}, "
            f"{rates[-1]:,.1f} with {last['threads']}.",
            {
                "data": [line("one thread", cores, rates, 1, unit=unit)],
                "layout": {
                    "xaxis": axis("threads", rangemode="tozero"),
                    "yaxis": axis(unit, rangemode="tozero"),
                },
            },
        )
    )
    return made
