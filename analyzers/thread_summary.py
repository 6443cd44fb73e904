"""Which threads stood ready longest without a CPU.

Judged by the longest single ready time before a switch-in: from 1 ms it is told (a sixteenth of a
frame at 60 Hz), from 4 ms it is a warning (a whole time slice of the usual kernels), from 16.7 ms
critical (a frame at 60 Hz is missed). The three worst threads are named, those of one name and
process once. In the steps of workloads their own threads are not judged (they wait as planned: see
concurrency and scaling_curve), and of what others wait beside them the worst is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.findings import Finding, Metric, Scope, Severity
from schedlens.wording import and_more, count, duration, thread_name

NEEDS = ("switches",)
METRIC: Metric = "ready"

TOLD_NS = 1_000_000
WARNING_NS = 4_000_000
CRITICAL_NS = 16_700_000
NAMED = 3

_FOREIGN = "t.utid NOT IN (SELECT utid FROM workload_thread)"
# Threads of a pool differ by a number alone.
_ALIKE = (
    ", ".join(f"regexp_replace({name}, '[0-9]+', '', 'g')" for name in ("process", "thread"))
    + ", run.workload IS NOT NULL"
)


def judge(scope: Scope) -> Iterable[Finding]:
    """The threads with the longest ready times, or what was checked."""
    asked = scope.call("thread_summary", process=scope.process)
    judged = scope.rows(
        f"SELECT t.*, w.start_ns, w.end_ns, w.dur_ns, trace.label, "
        "run.workload IS NOT NULL AS beside_workload, "
        "count(*) OVER same - 1 AS others_like_it "
        f"FROM ({asked}) AS t "
        "JOIN analysis_span AS w USING (trace_id) JOIN trace USING (trace_id) "
        "LEFT JOIN run USING (trace_id) "
        f"WHERE ready_max_ns >= {TOLD_NS} AND {_FOREIGN} "
        f"WINDOW same AS (PARTITION BY {_ALIKE}) "
        f"QUALIFY row_number() OVER (PARTITION BY {_ALIKE} "
        "ORDER BY ready_max_ns DESC, trace_id, utid) = 1 "
        "ORDER BY ready_max_ns DESC, trace_id, utid"
    )
    worst = [row for row in judged if not row["beside_workload"]][:NAMED]
    worst += [row for row in judged if row["beside_workload"]][:1]
    for row in worst:
        yield Finding(
            analyzer="thread_summary",
            severity="info" if row["beside_workload"] else _severity(row["ready_max_ns"]),
            title=(
                f"{thread_name(row['thread'], row['tid'], row['process'])} was ready for "
                f"{duration(row['ready_max_ns'])} at a time before it got a CPU, "
                f"{duration(row['ready_ns'])} {_of_window(row)} ({row['label']})"
                f"{and_more(row['others_like_it'])}"
            ),
            trace_id=row["trace_id"],
            cost_ns=row["ready_ns"],
            cost_pct=100 * row["ready_ns"] / row["dur_ns"] if row["dur_ns"] else None,
            utid=row["utid"],
            cpu=row["last_cpu"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            bound="at_least" if row["unknown_ns"] else "exact",
            advice=(
                "See what stood in its way (ready_obstacle) and who ran instead (worst_waits): "
                "fewer runnable threads, a wider affinity, or a higher priority for this one."
            ),
            evidence_sql=(
                "SELECT ts - ready_ns AS ready_at_ns, ready_ns, cpu, waker_utid, end_reason "
                f"FROM sched_slice WHERE utid = {row['utid']} AND ready_ns >= {TOLD_NS} "
                "ORDER BY ready_ns DESC"
            ),
            counter_evidence_sql=(
                "SELECT thread, run_ns, ready_ns, ready_count, ready_p50_ns, ready_p95_ns, "
                f"ready_p99_ns FROM thread_summary WHERE utid = {row['utid']}"
            ),
        )
    if not worst:
        counted = scope.rows(
            "SELECT count(*) AS threads, max(ready_max_ns) AS longest "
            f"FROM ({asked}) AS t WHERE {_FOREIGN}"
        )[0]
        longest = counted["longest"]
        yield Finding(
            analyzer="thread_summary",
            severity="checked",
            title=(
                f"{count(counted['threads'], 'thread')}, no known ready time reaches "
                f"{duration(TOLD_NS)}"
                + (f"; the longest is {duration(longest)}" if longest is not None else "")
            ),
            evidence_sql=(
                f"SELECT trace_id, thread, tid, ready_ns, ready_count, ready_max_ns FROM ({asked}) "
                "ORDER BY ready_max_ns DESC NULLS LAST LIMIT 20"
            ),
        )


def _of_window(row: dict[str, Any]) -> str:
    """A ready time that began before the window is longer than what lies in it."""
    return "of it in the window" if row["ready_max_ns"] > row["ready_ns"] else "in all"


def _severity(ready_ns: int) -> Severity:
    if ready_ns >= CRITICAL_NS:
        return "critical"
    return "warning" if ready_ns >= WARNING_NS else "info"
