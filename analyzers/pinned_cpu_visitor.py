"""Whether other threads ran on CPUs that are kept for someone.

The visitor that cost the pinned threads most ready time is reported. It is a warning from 1 ms of
that (a sixteenth of a frame at 60 Hz), or from 1 % of an isolated CPU's window, since isolation
promises none. On a CPU that is kept for the workers of a workload step it is a warning from 2 % of
the window, which is what the throughput loses by it, and info below. Kernel threads bound to the
CPU are counted in the evidence and not judged: no placement moves them.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean
from schedlens.output.wording import count, duration, percent, recordings, thread_name

NEEDS = ("switches", "kept_cpus")
METRIC: Metric = "ready"
KINDS = ("visitor",)

WARNING_NS = 1_000_000
WARNING_PCT = 1.0
WORKLOAD_PCT = 2.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The visitor that cost most, or a conclusion."""
    asked = scope.call("pinned_cpu_visitor", process=scope.process)
    rows = scope.rows(
        "SELECT v.*, trace.label, w.start_ns, w.end_ns, w.dur_ns, run.workload "
        f"FROM ({asked}) AS v "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "LEFT JOIN run USING (trace_id) "
        f"WHERE NOT is_bound AND (owner_ready_ns >= {WARNING_NS} "
        f"OR is_isolated AND run_pct >= {WARNING_PCT}) "
        "ORDER BY owner_ready_ns DESC, run_ns DESC, trace_id, cpu, utid"
    )
    if not rows:
        counted = scope.rows(
            f"SELECT count(*) AS visitors, sum(run_ns) AS run_ns, "
            f"sum(owner_ready_ns) AS owner_ready_ns FROM ({asked})"
        )[0]
        yield clean(
            f"{count(counted['visitors'], 'visitor')} on isolated CPUs or CPUs that threads are "
            f"pinned to ran {duration(counted['run_ns'])} in total; none delayed a pinned thread "
            f"by {duration(WARNING_NS)}."
            if counted["visitors"]
            else "No visitors on isolated CPUs or on CPUs that threads are pinned to."
        )
        return
    row = rows[0]
    others = len({r["trace_id"] for r in rows} - {row["trace_id"]})
    kept_for = ", ".join((row["owners"] or [])[:3]) or "an isolated purpose"
    yield Finding(
        kind="visitor",
        severity="info" if row["workload"] and row["run_pct"] < WORKLOAD_PCT else "warning",
        title=(
            f"Visitor on CPU {row['cpu']} delayed its owners by {duration(row['owner_ready_ns'])}"
            if row["owner_ready_ns"]
            else f"Visitor ran {duration(row['run_ns'])} on isolated CPU {row['cpu']}"
        ),
        detail=(
            f"{recordings(row['label'], others)}"
            f"{thread_name(row['thread'], row['tid'], row['process'])} ran "
            f"{count(row['slices'], 'time')} ({duration(row['run_ns'])}, "
            f"{percent(row['run_pct'])} of the window) on CPU {row['cpu']}, which is kept for "
            f"{kept_for}; its owners were ready for {duration(row['owner_ready_ns'])} meanwhile."
        ),
        advice=(
            "Keep other work off that CPU (cpuset.cpus, isolcpus, or taskset for the visitor), or "
            "pin its owner to another one."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["owner_ready_ns"],
        cost_pct=100 * row["owner_ready_ns"] / row["dur_ns"] if row["dur_ns"] else None,
        utid=row["utid"],
        cpu=row["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        evidence_sql=(
            "SELECT cpu, thread, tid, is_bound, slices, run_ns, run_pct, owner_ready_ns "
            f"FROM pinned_cpu_visitor(p_trace_id := {row['trace_id']}) WHERE cpu = {row['cpu']}"
        ),
        counter_evidence_sql=(
            "SELECT cpu, sum(run_ns)::BIGINT AS visitors_ns, "
            "sum(owner_ready_ns)::BIGINT AS owner_ready_ns "
            f"FROM pinned_cpu_visitor(p_trace_id := {row['trace_id']}) GROUP BY cpu ORDER BY cpu"
        ),
    )
