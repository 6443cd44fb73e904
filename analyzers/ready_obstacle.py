"""Whether threads stood ready while a CPU they may use was idle.

Judged is the machine's time: at each moment the largest number of ready threads that could have had
an idle CPU each, idle intervals of at least 100 us alone (shorter ones are gone before a thread is
there). It is a warning from 1 % of the window (of one CPU), critical from 10 %. Ready time with
only parked CPUs free is judged by the same shares, and so is ready time with an idle CPU outside
the thread's affinity, whatever the length of the slices (threads of a workload that was pinned by
its plan are left out). In the step of a workload its workers alone are
judged: the time of all other threads is taken off. Throttling has an analyzer of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, duration, elsewhere, percent, thread_name

NEEDS = ("switches", "all_threads", "wakeups")
METRIC: Metric = "ready"

MIN_IDLE_NS = 100_000
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0

_ASIDE = (
    "o.trace_id IN (SELECT trace_id FROM workload_thread) "
    "AND o.utid NOT IN (SELECT utid FROM workload_thread WHERE is_worker)"
)

_TOTAL = f"""
SELECT
  t.* EXCLUDE (matched_ns, parked_available_ns),
  greatest(0, t.matched_ns - coalesce(aside.idle_ns, 0)) AS matched_ns,
  greatest(0, t.parked_available_ns - coalesce(aside.parked_ns, 0)) AS parked_available_ns,
  coalesce(aside.idle_ns + aside.parked_ns, 0) > 0 AS something_aside,
  trace.label,
  w.start_ns,
  w.end_ns,
  w.dur_ns
FROM ready_obstacle_total(p_min_idle_ns := {MIN_IDLE_NS}) AS t
LEFT JOIN (
  SELECT
    o.trace_id,
    sum(idle_available_ns)::BIGINT AS idle_ns,
    sum(parked_available_ns)::BIGINT AS parked_ns
  FROM ready_obstacle(p_min_idle_ns := {MIN_IDLE_NS}) AS o
  WHERE {_ASIDE}
  GROUP BY o.trace_id
) AS aside USING (trace_id)
JOIN analysis_span AS w USING (trace_id)
JOIN trace USING (trace_id)
ORDER BY trace_id
"""


def judge(scope: Scope) -> Iterable[Finding]:
    """Ready time that an idle or a parked CPU could have taken, or what was checked."""
    rows = scope.rows(_TOTAL)
    idle = _above(rows, "matched_ns")
    if idle:
        yield _finding(scope, idle[0], len(idle) - 1, parked=False)
    parked = _above(rows, "parked_available_ns")
    if parked:
        yield _finding(scope, parked[0], len(parked) - 1, parked=True)
    bound = _bound(scope)
    if bound:
        yield _bound_finding(bound[0], len(bound) - 1)
    if not idle and not parked and not bound:
        total = sum(row["ready_ns"] or 0 for row in rows)
        yield Finding(
            analyzer="ready_obstacle",
            severity="checked",
            title=(
                f"{duration(total)} of ready time: in no recording could {percent(WARNING_PCT)} of "
                "the window have been spent on an idle CPU"
            ),
            evidence_sql="FROM ready_obstacle_total",
        )


def _bound(scope: Scope) -> list[dict[str, Any]]:
    """Recordings in which affinity kept threads off an idle CPU, the worst first."""
    return scope.rows(
        "SELECT a.trace_id, trace.label, w.start_ns, w.end_ns, w.dur_ns, count(*) AS threads, "
        "sum(a.outside_idle_ns)::BIGINT AS ns, arg_max(a.utid, a.outside_idle_ns) AS utid, "
        "arg_max(a.thread, a.outside_idle_ns) AS thread, arg_max(a.tid, a.outside_idle_ns) AS tid, "
        "arg_max(a.process, a.outside_idle_ns) AS process, max(a.outside_idle_ns) AS worst_ns, "
        "arg_max(a.cpus, a.outside_idle_ns) AS cpus "
        f"FROM affinity_wait(p_min_idle_ns := {MIN_IDLE_NS}) AS a "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "WHERE a.utid NOT IN (SELECT utid FROM workload_thread) "
        f"GROUP BY ALL HAVING 100 * sum(a.outside_idle_ns) >= {WARNING_PCT} * w.dur_ns "
        "ORDER BY ns DESC, a.trace_id"
    )


def _bound_finding(row: dict[str, Any], others: int) -> Finding:
    share = 100 * row["ns"] / row["dur_ns"]
    cpus = ", ".join(str(cpu) for cpu in row["cpus"] or [])
    noun = "CPU" if len(row["cpus"] or []) == 1 else "CPUs"
    return Finding(
        analyzer="ready_obstacle",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=(
            f"Affinity kept {count(row['threads'], 'thread')} waiting {duration(row['ns'])} while "
            f"another CPU was idle: {thread_name(row['thread'], row['tid'], row['process'])} was "
            f"ready for {duration(row['worst_ns'])} and may run on {noun} {cpus} alone "
            f"({row['label']}){elsewhere(others)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=row["ns"],
        cost_pct=share,
        utid=row["utid"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="range",
        advice=(
            "Widen the affinity of these threads (taskset -p, sched_setaffinity, "
            "SetThreadAffinityMask, cpuset.cpus), or spread them over more CPUs."
        ),
        evidence_sql=f"FROM affinity_wait(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=(
            f"SELECT from_ns, to_ns, cpus, source FROM affinity_spell WHERE utid = {row['utid']}"
        ),
    )


def _above(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    above = [r for r in rows if r["dur_ns"] and 100 * (r[column] or 0) >= WARNING_PCT * r["dur_ns"]]
    return sorted(above, key=lambda row: -row[column])


def _finding(scope: Scope, row: dict[str, Any], others: int, *, parked: bool) -> Finding:
    cost_ns = row["parked_available_ns" if parked else "matched_ns"]
    column = "parked_available_ns" if parked else "idle_available_ns"
    threads = scope.rows(
        f"SELECT utid, thread, tid, process, {column} AS ns "
        f"FROM ready_obstacle(p_trace_id := {row['trace_id']}, p_min_idle_ns := {MIN_IDLE_NS}) "
        f"AS o WHERE {column} > 0 AND NOT ({_ASIDE}) ORDER BY ns DESC, utid LIMIT 1"
    )
    worst = threads[0] if threads else None
    share = 100 * cost_ns / row["dur_ns"]
    kind = "parked" if parked else "idle"
    named = (
        f", most of all {thread_name(worst['thread'], worst['tid'], worst['process'])} with "
        f"{duration(worst['ns'])}"
        if worst
        else ""
    )
    return Finding(
        analyzer="ready_obstacle",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=(
            f"Threads stood ready for {duration(cost_ns)} ({percent(share)} of the window) "
            f"while a CPU they may use was {kind}{named} ({row['label']}){elsewhere(others)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=cost_ns,
        cost_pct=share,
        utid=worst["utid"] if worst else None,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound=(
            "exact"
            if row["affinity_known"] and not parked and not row["something_aside"]
            else "at_least"
        ),
        advice=(
            "Raise the parking floor (minimum cores, concurrency headroom) for this load."
            if parked
            else "Widen the affinity of the waiting threads, or look at why the scheduler did not "
            "move them: cgroup limits, a pinned waker, or the balancing of the kernel."
        ),
        evidence_sql=f"FROM ready_obstacle(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM ready_obstacle_total(p_trace_id := {row['trace_id']})",
    )
