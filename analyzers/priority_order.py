"""Whether low priority work ran while higher priority work was ready, or ran on E cores.

Two costs are judged for each recording: running time of lower priorities while higher priority work
was ready that may use the same CPU (warning from 1 % of the window, critical from 10 %), and
running time of lower priorities on P cores while higher priority work ran on E cores that may use
them (warning from 10 %, critical from 100 %: a whole P core all the time; info, if the threads that
present spent less than 20 % of their running time on E cores). It is also info for the priority
whose threads ran for at least 25 % of the window and were ready for at least 40 % of their runnable
time. On Linux only real-time and deadline priorities are strict, and the policy SCHED_IDLE, which
ranks below all others: nice levels are weights, and thread_summary judges what a thread lacks of
its share by weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schedlens.ask import unknown_priorities
from schedlens.ask.findings import Finding, Metric, Outcome, Scope, Severity, clean
from schedlens.output.wording import count, duration, percent, recordings, thread_name

NEEDS = ("switches", "priorities")
METRIC: Metric = "ready"
KINDS = ("higher_ready", "higher_on_e_cores", "starved")

READY_WARNING_PCT, READY_CRITICAL_PCT = 1.0, 10.0
PLACE_WARNING_PCT, PLACE_CRITICAL_PCT = 10.0, 100.0
SPARED_PCT = 20.0
RAN_PCT = 25.0
STARVED_PCT = 40.0


@dataclass(frozen=True)
class _Kind:
    """What lower priorities took: a column of `background_running`, its thresholds and words."""

    name: str
    column: str
    warning_pct: float
    critical_pct: float
    title: str
    words: str
    advice: str


# Weights of a session with nice 19, and of a cgroup with cpu.idle.
_LOWEST_SESSION, _LOWEST_CGROUP = 15, 3

_IN_THE_WAY = (
    _Kind(
        "higher_ready",
        "higher_ready_ns",
        READY_WARNING_PCT,
        READY_CRITICAL_PCT,
        "Lower priorities ran {cost} while higher ones were ready",
        "while a thread of higher priority that may use the same CPU was ready",
        "Defer background work until the urgent work has started, and widen the affinity of the "
        "ready threads (SetThreadAffinityMask, taskset -p): priority alone is not enough.",
    ),
    _Kind(
        "higher_on_e_cores",
        "higher_on_e_ns",
        PLACE_WARNING_PCT,
        PLACE_CRITICAL_PCT,
        "Lower priorities took P cores from higher ones for {cost}",
        "on P cores while a thread of higher priority that may use them ran on an E core",
        "Mark background work as EcoQoS (SetProcessInformation) or defer it, and give the urgent "
        "threads high QoS: priority alone does not keep background work off P cores.",
    ),
)


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """At most one finding of each kind, and the priorities that starve; or a conclusion."""
    # The thread that ran instead may belong to another process.
    asked = scope.call("background_running")
    found = False
    for kind in _IN_THE_WAY:
        rows = scope.rows(
            f"SELECT trace_id, label, sum({kind.column})::BIGINT AS cost, "
            "any_value(dur_ns) AS dur_ns, "
            "any_value(start_ns) AS start_ns, any_value(end_ns) AS end_ns "
            f"{asked} JOIN analysis_span USING (trace_id) JOIN trace USING (trace_id) "
            "GROUP BY trace_id, label "
            f"HAVING 100 * cost >= {kind.warning_pct} * any_value(dur_ns) "
            "AND cost >= 1000000 ORDER BY cost DESC, trace_id"
        )
        if rows:
            found = True
            yield _in_the_way(scope, rows, kind)
    starved = list(_starved(scope))
    yield from starved
    if not found and not starved:
        yield clean(
            "No lower priority ran while a higher one was ready, and no priority starved."
            + unknown_priorities.note(scope)
        )


def _in_the_way(scope: Scope, rows: list[dict[str, Any]], kind: _Kind) -> Finding:
    row, column = rows[0], kind.column
    share = 100 * row["cost"] / row["dur_ns"]
    most = scope.rows(
        f"SELECT thread, tid, process, utid, priority, sum({column})::BIGINT AS ns, "
        f"arg_max(cpu, ({column}, -cpu)) AS cpu, "
        "utid IN (SELECT utid FROM scheduling_policy WHERE policy = 'idle') AS is_background "
        f"{scope.call('background_running')} WHERE trace_id = {row['trace_id']} "
        "GROUP BY ALL ORDER BY ns DESC, utid, priority LIMIT 1"
    )[0]
    severity: Severity = "critical" if share >= kind.critical_pct else "warning"
    if column == "higher_on_e_ns" and _frames_spared(scope, row["trace_id"]):
        severity = "info"
    name = thread_name(most["thread"], most["tid"], most["process"])
    rank = "with SCHED_IDLE" if most["is_background"] else f"at priority {most['priority']}"
    return Finding(
        kind=kind.name,
        severity=severity,
        title=kind.title.format(cost=duration(row["cost"])),
        detail=(
            f"{recordings(row['label'], len(rows) - 1)}lower priorities ran "
            f"{duration(row['cost'])} {kind.words}; {name} {rank} ran "
            f"longest, {duration(most['ns'])}."
        ),
        advice=_of_background(scope, most["utid"]) if most["is_background"] else kind.advice,
        trace_id=row["trace_id"],
        cost_ns=row["cost"],
        cost_pct=share,
        utid=most["utid"],
        cpu=most["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="at_least",
        evidence_sql=(
            f"SELECT process, thread, tid, priority, cpu, run_ns, {column} "
            f"FROM background_running(p_trace_id := {row['trace_id']}) WHERE {column} > 0 "
            f"ORDER BY {column} DESC, utid, cpu"
        ),
        counter_evidence_sql=f"SELECT * FROM core_type_priority(p_trace_id := {row['trace_id']})",
    )


def _of_background(scope: Scope, utid: int) -> str:
    """What makes a thread of SCHED_IDLE yield to threads of other groups."""
    groups = scope.rows(
        f"SELECT path[-1] AS name, weights[-1] AS weight FROM sharing_group WHERE utid = {utid}"
    )
    if not groups:
        return (
            "SCHED_IDLE yields only within its cgroup or autogroup: set cpu.idle of its cgroup to "
            "1 or lower its cpu.weight, or write 19 to /proc/PID/autogroup; or run it at another "
            "time."
        )
    (group,) = groups
    if not group["name"].startswith("/") or group["name"].startswith("/autogroup-"):
        if group["weight"] > _LOWEST_SESSION:
            return (
                "SCHED_IDLE yields only within its session (autogroup): write 19 to "
                "/proc/PID/autogroup, or run it at another time."
            )
        return (
            "SCHED_IDLE yields only within its session, whose weight is the lowest already (nice "
            "19 in /proc/PID/autogroup): move it to a cgroup with cpu.idle, or run it at another "
            "time."
        )
    if group["weight"] > _LOWEST_CGROUP:
        return (
            f"SCHED_IDLE yields only within its cgroup: set cpu.idle of {group['name']} to 1 or "
            "lower its cpu.weight, or run it at another time."
        )
    return (
        f"SCHED_IDLE yields only within its cgroup, and {group['name']} has cpu.idle already: run "
        "it at another time."
    )


def _frames_spared(scope: Scope, trace_id: int) -> bool:
    """Whether the threads that present were hardly on E cores; False where none presents."""
    row = scope.rows(
        "SELECT sum(run_ns) FILTER (WHERE core_type IN ('E', 'LP-E')) AS slow, sum(run_ns) AS ran "
        f"FROM core_type_residency(p_trace_id := {trace_id}) "
        "WHERE utid IN (SELECT utid FROM frame WHERE utid IS NOT NULL)"
    )[0]
    return bool(row["ran"]) and 100 * (row["slow"] or 0) < SPARED_PCT * row["ran"]


def _starved(scope: Scope) -> Iterable[Finding]:
    asked = scope.call("priority_share")
    rows = scope.rows(
        f"SELECT s.*, trace.label, w.dur_ns, w.start_ns, w.end_ns FROM ({asked}) AS s "
        "JOIN analysis_span AS w USING (trace_id) JOIN trace USING (trace_id) "
        f"WHERE 100 * s.run_ns >= {RAN_PCT} * w.dur_ns AND s.ready_pct >= {STARVED_PCT} "
        # Nice levels of Linux are weights: thread_summary judges what a thread lacks of its share.
        # A deadline thread (-1) is ready while its runtime is used up: real_time judges it.
        "AND (NOT is_tracepoint_source(trace.source) OR s.priority BETWEEN 0 AND 99) "
        "ORDER BY s.ready_ns DESC, s.trace_id, s.priority LIMIT 1"
    )
    for row in rows:
        yield Finding(
            kind="starved",
            severity="info",
            title=(
                f"Priority {row['priority']} was ready for {percent(row['ready_pct'])} of "
                "its runnable time"
            ),
            detail=(
                f"{recordings(row['label'])}{count(row['threads'], 'thread')} at priority "
                f"{row['priority']} ran {duration(row['run_ns'])} and waited "
                f"{duration(row['ready_ns'])} for a CPU, {duration(row['ready_max_ns'])} at most."
            ),
            advice=(
                "Raise the priority of this work (SetThreadPriority, chrt) or start fewer threads "
                "of higher priority, if it matters; otherwise this is expected at its priority."
            ),
            trace_id=row["trace_id"],
            cost_ns=row["ready_ns"],
            cost_pct=100 * row["ready_ns"] / row["dur_ns"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            bound="at_least",
            evidence_sql=f"FROM priority_share(p_trace_id := {row['trace_id']})",
            counter_evidence_sql=(
                "SELECT process, thread, tid, ready_ns, ready_max_ns "
                f"FROM thread_summary(p_trace_id := {row['trace_id']}) "
                "ORDER BY ready_ns DESC, utid LIMIT 20"
            ),
        )
