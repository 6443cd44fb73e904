"""Whether a hypervisor took the CPUs away.

Stolen time looks like running time in the trace, so every time of such a step is too long by it. It
is info from 0.1 % of a CPU's step, a warning from 1 % (the accuracy the other numbers claim),
critical from 10 %. In a virtual machine the topology is only what the host claims, and the finding
says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, Severity, clean, not_applicable
from schedlens.ask.virtual_machine import claim
from schedlens.output.wording import duration, percent, recordings

NEEDS = ("snapshots",)
METRIC: Metric = "measured"
KINDS = ("stolen_cpu",)

INFO_PCT = 0.1
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The CPU and step from which most was taken, or a conclusion."""
    rows = scope.rows(
        "SELECT s.*, trace.label, run.start_ns, run.end_ns FROM steal AS s "
        "JOIN trace USING (trace_id) LEFT JOIN run USING (trace_id) "
        "WHERE steal_ns IS NOT NULL ORDER BY steal_pct DESC, trace_id, cpu"
    )
    taken = [row for row in rows if row["steal_pct"] is not None and row["steal_pct"] >= INFO_PCT]
    if not taken:
        yield (
            clean(claim(scope, None, f"No CPU was taken away for {percent(INFO_PCT)} of a step."))
            if rows
            else not_applicable(claim(scope, None, "No snapshot contains steal time."))
        )
        return
    row = taken[0]
    others = len({r["trace_id"] for r in taken} - {row["trace_id"]})
    yield Finding(
        kind="stolen_cpu",
        severity=_severity(row["steal_pct"]),
        title=(
            f"Hypervisor took CPU {row['cpu']} for {duration(row['steal_ns'])} "
            f"({percent(row['steal_pct'])})"
        ),
        detail=(
            f"{recordings(row['label'], others)}the hypervisor took CPU {row['cpu']} for "
            f"{duration(row['steal_ns'])}, {percent(row['steal_pct'])} of the step."
        ),
        advice=claim(
            scope,
            row["trace_id"],
            "Repeat this step on a quieter host or with dedicated CPUs before you compare "
            "throughput, and read its running times as upper bounds.",
        ),
        trace_id=row["trace_id"],
        cost_ns=row["steal_ns"],
        cost_pct=row["steal_pct"],
        cpu=row["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        cost_of="of the step",
        evidence_sql=(
            "SELECT trace_id, cpu, step_ns, steal_ns, steal_pct FROM steal "
            "ORDER BY steal_pct DESC NULLS LAST"
        ),
        counter_evidence_sql="FROM run_clock_check ORDER BY abs(diff_pct) DESC",
    )


def _severity(steal_pct: float) -> Severity:
    if steal_pct >= CRITICAL_PCT:
        return "critical"
    return "warning" if steal_pct >= WARNING_PCT else "info"
