"""Whether threads were ready while a CPU they may use was idle.

The cost is machine time: at each moment the largest number of ready threads that could have had an
idle CPU each, counting only idle intervals of at least 100 us (shorter ones are over before a
thread arrives). It is a warning from 1 % of the window (of one CPU), critical from 10 %. Ready time
with only parked CPUs free, where no other CPU may have been idle, is judged by the same shares, and
so is ready time with an idle CPU outside the thread's affinity, whatever the length of the slices
(threads of a workload that was pinned by its plan are left out). In the step of a workload only its
workers are judged: the time of all other threads is subtracted. Throttling has an analyzer of its
own.

A thread that sleeps and is woken often may wait for its CPU to leave an idle state each time. That
is info where it takes a quarter of the thread's running and ready time and 1 % of the window, and a
warning from 10 % of the window. Threads of workloads are left out: they sleep as planned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.affinity_setters import set_by
from schedlens.ask.findings import Finding, Metric, Outcome, Rank, Scope, clean
from schedlens.output.wording import (
    and_more,
    count,
    duration,
    percent,
    recordings,
    thread_name,
)

NEEDS = ("switches", "all_threads", "wakeups")
METRIC: Metric = "ready"
KINDS = ("ready_while_idle", "ready_while_parked", "affinity_wait", "idle_exit")

WARNING_PCT = 1.0
CRITICAL_PCT = 10.0
EXIT_OF_ACTIVE_PCT = 25.0

_ASIDE = (
    "o.trace_id IN (SELECT trace_id FROM workload_thread) "
    "AND o.utid NOT IN (SELECT utid FROM workload_thread WHERE is_worker)"
)


def _totals(scope: Scope) -> list[dict[str, Any]]:
    """The ready time of each recording, without that of threads which are no workers."""
    return scope.rows(f"""
        SELECT
          t.* EXCLUDE (matched_ns),
          greatest(0, t.matched_ns - coalesce(aside.idle_ns, 0)) AS matched_ns,
          greatest(0, t.parked_available_ns - t.maybe_idle_ns - coalesce(aside.parked_ns, 0))
            AS parked_ns,
          coalesce(aside.idle_ns + aside.parked_ns, 0) > 0 AS something_aside,
          trace.label,
          w.start_ns,
          w.end_ns,
          w.dur_ns
        {scope.call("ready_obstacle_total")} AS t
        LEFT JOIN (
          SELECT
            o.trace_id,
            sum(idle_available_ns)::BIGINT AS idle_ns,
            sum(parked_available_ns - maybe_idle_ns)::BIGINT AS parked_ns
          {scope.call("ready_obstacle")} AS o
          WHERE {_ASIDE}
          GROUP BY o.trace_id
        ) AS aside USING (trace_id)
        JOIN analysis_span AS w USING (trace_id)
        JOIN trace USING (trace_id)
        ORDER BY trace_id
    """)


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """Ready time that an idle or a parked CPU could have taken, or a conclusion."""
    rows = _totals(scope)
    idle = _above(rows, "matched_ns")
    if idle:
        yield _finding(scope, idle[0], len(idle) - 1, parked=False)
    parked = _above(rows, "parked_ns")
    if parked:
        yield _finding(scope, parked[0], len(parked) - 1, parked=True)
    bound = _bound(scope)
    if bound:
        yield _bound_finding(scope, bound[0], len(bound) - 1)
    exits = _exits(scope)
    if exits:
        yield _exit_finding(exits[0], len(exits) - 1)
    if not idle and not parked and not bound and not exits:
        total = sum(row["ready_ns"] or 0 for row in rows)
        yield clean(
            f"{duration(total)} of ready time; in no recording could an idle CPU have taken "
            f"{percent(WARNING_PCT)} of the window."
        )


def _bound(scope: Scope) -> list[dict[str, Any]]:
    """Recordings in which affinity kept threads off an idle CPU, the worst first."""
    return scope.rows(
        "SELECT a.trace_id, trace.label, w.start_ns, w.end_ns, w.dur_ns, count(*) AS threads, "
        "sum(a.outside_idle_ns)::BIGINT AS ns, arg_max(a.utid, a.outside_idle_ns) AS utid, "
        "arg_max(a.thread, a.outside_idle_ns) AS thread, arg_max(a.tid, a.outside_idle_ns) AS tid, "
        "arg_max(a.process, a.outside_idle_ns) AS process, max(a.outside_idle_ns) AS worst_ns, "
        "arg_max(a.cpus, a.outside_idle_ns) AS cpus "
        f"{scope.call('affinity_wait')} AS a "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "WHERE a.utid NOT IN (SELECT utid FROM workload_thread) "
        f"GROUP BY ALL HAVING 100 * sum(a.outside_idle_ns) >= {WARNING_PCT} * w.dur_ns "
        "ORDER BY ns DESC, a.trace_id"
    )


def _bound_finding(scope: Scope, row: dict[str, Any], others: int) -> Finding:
    share = 100 * row["ns"] / row["dur_ns"]
    cpus = ", ".join(str(cpu) for cpu in row["cpus"] or [])
    noun = "CPU" if len(row["cpus"] or []) == 1 else "CPUs"
    return Finding(
        kind="affinity_wait",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=f"Affinity kept threads waiting {duration(row['ns'])} while CPUs were idle",
        detail=(
            f"{recordings(row['label'], others)}affinity kept {count(row['threads'], 'thread')} "
            f"waiting {duration(row['ns'])} while another CPU was idle; "
            f"{thread_name(row['thread'], row['tid'], row['process'])} was ready for "
            f"{duration(row['worst_ns'])} and may run only on {noun} {cpus} ({set_by(scope, row)})."
        ),
        advice=(
            "Widen the affinity of these threads (taskset -p, sched_setaffinity, "
            "SetThreadAffinityMask, cpuset.cpus), or spread them over more CPUs."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["ns"],
        cost_pct=share,
        utid=row["utid"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="range",
        evidence_sql=f"FROM affinity_wait(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=(
            f"SELECT from_ns, to_ns, cpus, source FROM affinity_spell WHERE utid = {row['utid']}"
        ),
    )


def _exits(scope: Scope) -> list[dict[str, Any]]:
    """Threads that often wait for an idle CPU to wake up, the worst first."""
    return scope.rows(
        "SELECT o.trace_id, trace.label, w.start_ns, w.end_ns, w.dur_ns, o.utid, o.thread, o.tid, "
        "o.process, o.idle_exit_ns AS ns, t.ready_p50_ns, t.last_cpu, "
        "100 * o.idle_exit_ns / (t.run_ns + t.ready_ns) AS of_active_pct, "
        "is_windows_source(trace.source) AS is_windows "
        f"{scope.call('ready_obstacle')} AS o "
        f"JOIN ({scope.call('thread_summary')}) AS t ON t.utid = o.utid "
        "JOIN analysis_span AS w ON w.trace_id = o.trace_id "
        "JOIN trace ON trace.trace_id = o.trace_id "
        "WHERE o.utid NOT IN (SELECT utid FROM workload_thread) "
        f"AND 100 * o.idle_exit_ns >= {WARNING_PCT} * w.dur_ns "
        f"AND 100 * o.idle_exit_ns >= {EXIT_OF_ACTIVE_PCT} * (t.run_ns + t.ready_ns) "
        "ORDER BY ns DESC, o.trace_id, o.utid"
    )


def _exit_finding(row: dict[str, Any], others: int) -> Finding:
    share = 100 * row["ns"] / row["dur_ns"]
    median = row["ready_p50_ns"]
    often = "" if median is None else f", typically {duration(median)} each time"
    return Finding(
        kind="idle_exit",
        severity="warning" if share >= CRITICAL_PCT else "info",
        title=f"Thread waited {duration(row['ns'])} for idle CPUs to wake up",
        detail=(
            f"{recordings(row['label'])}"
            f"{thread_name(row['thread'], row['tid'], row['process'])} was ready for "
            f"{duration(row['ns'])} while the CPU that it then ran on left its idle state"
            f"{often}: {percent(row['of_active_pct'])} of its running and ready time."
            f"{and_more(others)}"
        ),
        advice=(
            "Let it poll for a while before it sleeps, or hand over more work at a time; "
            + (
                "or use a power plan that limits idle states (powercfg IDLEDISABLE)."
                if row["is_windows"]
                else "or forbid deep idle states (cpupower idle-set -D 2, /dev/cpu_dma_latency). "
                "In a virtual machine, the host stops idle CPUs: poll there (haltpoll, idle=poll)."
            )
        ),
        trace_id=row["trace_id"],
        cost_ns=row["ns"],
        cost_pct=share,
        utid=row["utid"],
        about=(row["utid"],),
        cpu=row["last_cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        rank=Rank.SUM,
        evidence_sql=(
            "SELECT ts, dur, ready_ts, entered_cpu, idle_ns FROM ready_slice "
            f"WHERE utid = {row['utid']} AND obstacle = 'idle_exit' ORDER BY dur DESC, ts"
        ),
        counter_evidence_sql=(
            f"SELECT * FROM ready_obstacle(p_trace_id := {row['trace_id']}) "
            f"WHERE utid = {row['utid']}"
        ),
    )


def _above(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    above = [r for r in rows if r["dur_ns"] and 100 * (r[column] or 0) >= WARNING_PCT * r["dur_ns"]]
    return sorted(above, key=lambda row: -row[column])


def _finding(scope: Scope, row: dict[str, Any], others: int, *, parked: bool) -> Finding:
    cost_ns = row["parked_ns" if parked else "matched_ns"]
    column = "parked_available_ns - maybe_idle_ns" if parked else "idle_available_ns"
    threads = scope.rows(
        f"SELECT utid, thread, tid, process, {column} AS ns "
        f"{scope.call('ready_obstacle', trace_id=row['trace_id'])} AS o "
        f"WHERE ns > 0 AND NOT ({_ASIDE}) ORDER BY ns DESC, utid LIMIT 1"
    )
    worst = threads[0] if threads else None
    share = 100 * cost_ns / row["dur_ns"]
    state = "parked" if parked else "idle"
    named = (
        f"; {thread_name(worst['thread'], worst['tid'], worst['process'])} waited longest, "
        f"{duration(worst['ns'])}"
        if worst
        else ""
    )
    return Finding(
        kind="ready_while_parked" if parked else "ready_while_idle",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=f"Threads waited {duration(cost_ns)} while an allowed CPU was {state}",
        detail=(
            f"{recordings(row['label'], others)}threads were ready for {duration(cost_ns)} "
            f"({percent(share)} of the window) while a CPU that they may use was {state}{named}."
        ),
        advice=(
            "Raise the power plan's minimum of unparked cores (powercfg CPMINCORES) and its "
            "concurrency headroom for this load."
            if parked
            else "Widen the affinity of the waiting threads (taskset -p, SetThreadAffinityMask); "
            "if it is wide, check cpuset.cpus, isolated CPUs and the load balancer."
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
        rank=Rank.SUM,
        evidence_sql=f"FROM ready_obstacle(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM ready_obstacle_total(p_trace_id := {row['trace_id']})",
    )
