"""What interrupted isolated CPUs."""

from __future__ import annotations

from schedlens.report.figures import bar, row_height, rows_across
from schedlens.report.sections import Figure, Nothing, Section, View

HEADING = "Interruptions of isolated CPUs"
ORDER = 112
FIGURES = {"causes": "interruptions per second of isolated CPUs by cause"}

_CAUSES = ("tick", "timer", "rcu", "ipi", "device", "softirq")
_MOST_CPUS = 32


def section(view: View) -> Section | Nothing:
    """The isolated CPUs of the step in view, by what interrupted them."""
    answer = view.ask_step("isolated_cpu_noise")
    if not answer.rows:
        return Nothing("no CPU is isolated, or no interrupts were recorded there")
    rates: dict[int, dict[str, float]] = {}
    for row in answer.rows:
        of_cpu = rates.setdefault(row["cpu"], {})
        of_cpu[row["cause"]] = of_cpu.get(row["cause"], 0.0) + row["per_s"]
    chosen = sorted(rates, key=lambda cpu: (-sum(rates[cpu].values()), cpu))[:_MOST_CPUS]
    labels = [f"CPU {cpu}" for cpu in chosen]
    plot = rows_across(
        [
            bar(cause, labels, [rates[cpu].get(cause) for cpu in chosen], index, unit="per s")
            for index, cause in enumerate(_CAUSES)
            if any(cause in rates[cpu] for cpu in chosen)
        ],
        "per second",
    )
    caption = (
        f"Interruptions per second of {len(chosen)} of {len(rates)} isolated CPUs by cause; most "
        f"on CPU {chosen[0]}, {sum(rates[chosen[0]].values()):,.0f} per second."
    )
    return Section(
        "Isolation keeps threads away, not the tick, timers, RCU, devices and interrupts from "
        "other CPUs. The table names the kernel parameter against each.",
        view.step_window(),
        (Figure("causes", caption, plot, height=row_height(len(chosen))),),
        (answer,),
    )
