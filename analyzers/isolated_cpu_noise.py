"""Whether isolated CPUs were interrupted: ticks, timers, RCU, IPIs, devices, softirqs.

Isolation keeps other threads away, not the kernel's own work. The isolated CPU with most
interruptions is reported: info from 10 per second, a warning from 100 (a tick). The advice is the
kernel command line that removes what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.machine import cpu_list
from schedlens.output.wording import and_more, count, duration, number, recordings

NEEDS = ("interrupts",)
METRIC: Metric = "running"
KINDS = ("interrupted",)

INFO_PER_S = 10.0
WARNING_PER_S = 100.0
# Singular and plural of each cause.
_WORDS = {
    "tick": ("tick", "ticks"),
    "timer": ("timer run", "timer runs"),
    "rcu": ("RCU run", "RCU runs"),
    "ipi": ("interrupt from other CPUs", "interrupts from other CPUs"),
    "device": ("device interrupt", "device interrupts"),
    "softirq": ("other softirq", "other softirqs"),
}
_NO_IPI = (
    "Interrupts from other CPUs have no parameter: share no memory map with threads elsewhere "
    "(munmap, mprotect, membarrier), and wake no thread there."
)


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The isolated CPU with most interruptions, or a conclusion."""
    if not scope.rows("SELECT 1 FROM isolated_cpu LIMIT 1"):
        yield not_applicable("No CPU is isolated (isolcpus).")
        return
    asked = scope.call("isolated_cpu_noise")
    rows = scope.rows(
        "SELECT n.trace_id, n.cpu, trace.label, sum(n.per_s) AS per_s, "
        "coalesce(sum(n.run_ns), 0)::BIGINT AS run_ns, any_value(w.dur_ns) AS dur_ns, "
        "any_value(w.start_ns) AS start_ns, any_value(w.end_ns) AS end_ns "
        f"FROM ({asked}) AS n JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        f"GROUP BY n.trace_id, n.cpu, trace.label HAVING sum(n.per_s) >= {INFO_PER_S} "
        "ORDER BY sum(n.per_s) DESC, n.trace_id, n.cpu"
    )
    if not rows:
        yield clean(f"No isolated CPU was interrupted {INFO_PER_S:g} times per second.")
        return
    row = rows[0]
    noise = scope.rows(
        "SELECT cause, sum(count)::BIGINT AS count, sum(per_s) AS per_s, "
        f"any_value(parameter) AS parameter FROM ({asked}) WHERE trace_id = {row['trace_id']} "
        f"AND cpu = {row['cpu']} GROUP BY cause ORDER BY count DESC, cause"
    )
    parts = ", ".join(count(each["count"], *_WORDS[each["cause"]]) for each in noise)
    yield Finding(
        kind="interrupted",
        severity="warning" if row["per_s"] >= WARNING_PER_S else "info",
        title=f"Isolated CPU {row['cpu']} was interrupted {number(row['per_s'])} times per second",
        detail=(
            f"{recordings(row['label'], len({each['trace_id'] for each in rows}) - 1)}the kernel "
            f"interrupted isolated CPU {row['cpu']} for {duration(row['run_ns'])}: {parts}."
            f"{and_more(len(rows) - 1)}"
        ),
        advice=_advice(scope, row["trace_id"], noise),
        trace_id=row["trace_id"],
        cost_ns=row["run_ns"],
        cost_pct=100 * row["run_ns"] / row["dur_ns"] if row["dur_ns"] else None,
        cpu=row["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="at_least",
        evidence_sql=(
            "SELECT cpu, cause, name, count, per_s, run_ns, longest_ns, parameter "
            f"FROM isolated_cpu_noise(p_trace_id := {row['trace_id']})"
        ),
        counter_evidence_sql=(
            "SELECT key, value FROM machine_setting "
            f"WHERE trace_id = {row['trace_id']} AND key IN ('isolated_cpus', 'nohz_full', 'hz')"
        ),
    )


def _advice(scope: Scope, trace_id: int, noise: Sequence[dict[str, Any]]) -> str:
    """The kernel command line that keeps away what was seen there."""
    online = {
        row["cpu"] for row in scope.rows(f"SELECT cpu FROM topology(p_trace_id := {trace_id})")
    }
    apart = {
        row["cpu"] for row in scope.rows(f"SELECT cpu FROM isolated_cpu(p_trace_id := {trace_id})")
    }
    settings = scope.rows(
        "SELECT value FROM machine_setting "
        f"WHERE trace_id = {trace_id} AND key = 'nohz_full' AND value IS NOT NULL"
    )
    quiet = cpu_list.text(apart)
    wanted = {each["parameter"] for each in noise}
    values = {
        "nohz_full": "" if any(row["value"] == quiet for row in settings) else quiet,
        "rcu_nocbs": quiet,
        "irqaffinity": cpu_list.text(online - apart),
    }
    line = " ".join(f"{name}={cpus}" for name, cpus in values.items() if name in wanted and cpus)
    parts = [f"Add to the kernel command line: {line}."] if line else []
    if "nohz_full" in wanted and not values["nohz_full"]:
        parts.append(
            "Run one thread there: nohz_full, which is set, stops the tick only if no other thread "
            "is runnable, and timers of a thread remain on its CPU."
        )
    if any(each["cause"] == "ipi" for each in noise):
        parts.append(_NO_IPI)
    return " ".join(parts)
