"""Whether a hypervisor took the CPUs away.

Stolen time looks like running time in the trace, so every time of such a step is too long by it. It
is told from 0.1 % of a CPU's step, a warning from 1 % (the accuracy the other numbers claim),
critical from 10 %. In a virtual machine the topology is a claim of the host, and told as such.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope, Severity
from schedlens.ask.virtual_machine import claim
from schedlens.output.wording import duration, elsewhere, percent

NEEDS = ("snapshots",)
METRIC: Metric = "measured"

TOLD_PCT = 0.1
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0


def judge(scope: Scope) -> Iterable[Finding]:
    """The CPU and step from which most was taken, or what was checked."""
    rows = scope.rows(
        "SELECT s.*, trace.label, run.start_ns, run.end_ns FROM steal AS s "
        "JOIN trace USING (trace_id) LEFT JOIN run USING (trace_id) "
        "WHERE steal_ns IS NOT NULL ORDER BY steal_pct DESC, trace_id, cpu"
    )
    taken = [row for row in rows if row["steal_pct"] is not None and row["steal_pct"] >= TOLD_PCT]
    if not taken:
        yield Finding(
            analyzer="steal",
            severity="checked",
            title=(
                f"No CPU was taken away for {percent(TOLD_PCT)} of a step"
                if rows
                else "No snapshots of what the system counts: whether CPUs were stolen is unknown"
            ),
            advice=claim(scope, None),
            evidence_sql="SELECT trace_id, cpu, step_ns, steal_ns, steal_pct FROM steal",
        )
        return
    row = taken[0]
    others = len({r["trace_id"] for r in taken} - {row["trace_id"]})
    yield Finding(
        analyzer="steal",
        severity=_severity(row["steal_pct"]),
        title=(
            f"The hypervisor took CPU {row['cpu']} away for {duration(row['steal_ns'])} "
            f"({percent(row['steal_pct'])}) of the step {row['label']}{elsewhere(others)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=row["steal_ns"],
        cost_pct=row["steal_pct"],
        cpu=row["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        advice=claim(
            scope,
            row["trace_id"],
            "Take running times of this step as upper bounds, and repeat it on a quieter host or "
            "with dedicated CPUs before comparing throughput.",
        ),
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
