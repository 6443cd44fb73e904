"""Whether low priority work ran while higher priority work stood ready, or sat on E cores.

Two costs are judged a recording: running time of lower priorities while higher priority work stood
ready that may use the same CPU (warning from 1 % of the window, critical from 10 %), and running
time of lower priorities on P cores while higher priority work ran on E cores that may use them
(warning from 10 %, critical from 100 %: a whole P core all the time; told only, if the threads that
present spent less than 20 % of their running time on E cores). Reported is also each priority
whose threads ran for at least 25 % of the window and stood ready for at least 40 % of their
runnable time. On Linux only real-time and deadline priorities are strict: nice levels are weights,
and what a thread lacks of its share by weight is judged by thread_summary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope, Severity
from schedlens.output.wording import count, duration, elsewhere, percent, thread_name

NEEDS = ("switches", "priorities")
METRIC: Metric = "ready"

READY_WARNING_PCT, READY_CRITICAL_PCT = 1.0, 10.0
PLACE_WARNING_PCT, PLACE_CRITICAL_PCT = 10.0, 100.0
SPARED_PCT = 20.0
RAN_PCT = 25.0
STARVED_PCT = 40.0

_KINDS = (
    (
        "higher_ready_ns",
        READY_WARNING_PCT,
        READY_CRITICAL_PCT,
        "while work of a higher priority that may use its CPU stood ready",
        "Do not rely on priority alone: defer the background until the urgent work has started, "
        "and widen the affinity of what stood ready.",
    ),
    (
        "higher_on_e_ns",
        PLACE_WARNING_PCT,
        PLACE_CRITICAL_PCT,
        "on P cores while work of a higher priority that may use them ran on E cores",
        "Priority alone does not keep background work off P cores: mark it EcoQoS (or defer it "
        "until the urgent work has started), and give the urgent threads high QoS.",
    ),
)


def judge(scope: Scope) -> Iterable[Finding]:
    """At most one finding of each kind, and the priorities that starve; or what was checked."""
    # Who is in the way need not be of the process asked for.
    scope.con.execute("CREATE OR REPLACE TEMP TABLE own_background AS FROM background_running")
    found = False
    for column, warning, critical, words, advice in _KINDS:
        rows = scope.rows(
            f"SELECT trace_id, label, sum({column})::BIGINT AS cost, any_value(dur_ns) AS dur_ns, "
            "any_value(start_ns) AS start_ns, any_value(end_ns) AS end_ns "
            "FROM own_background JOIN analysis_span USING (trace_id) JOIN trace USING (trace_id) "
            f"GROUP BY trace_id, label HAVING 100 * cost >= {warning} * any_value(dur_ns) "
            f"AND cost >= 1000000 ORDER BY cost DESC, trace_id"
        )
        if rows:
            found = True
            yield _in_the_way(scope, rows, column, critical, words, advice)
    starved = list(_starved(scope))
    yield from starved
    if not found and not starved:
        yield Finding(
            analyzer="priority_order",
            severity="checked",
            title="No lower priority ran while a higher one was ready, and none starved",
            evidence_sql="FROM priority_share",
        )


def _in_the_way(
    scope: Scope, rows: list[dict[str, Any]], column: str, critical: float, words: str, advice: str
) -> Finding:
    row = rows[0]
    share = 100 * row["cost"] / row["dur_ns"]
    most = scope.rows(
        f"SELECT thread, tid, process, utid, priority, sum({column})::BIGINT AS ns, "
        f"arg_max(cpu, ({column}, -cpu)) AS cpu FROM own_background "
        f"WHERE trace_id = {row['trace_id']} "
        "GROUP BY ALL ORDER BY ns DESC, utid, priority LIMIT 1"
    )[0]
    severity: Severity = "critical" if share >= critical else "warning"
    if column == "higher_on_e_ns" and _frames_spared(scope, row["trace_id"]):
        severity = "info"
    name = thread_name(most["thread"], most["tid"], most["process"])
    return Finding(
        analyzer="priority_order",
        severity=severity,
        title=(
            f"Lower priorities ran {duration(row['cost'])} {words}, {name} at priority "
            f"{most['priority']} most with {duration(most['ns'])} ({row['label']})"
            f"{elsewhere(len(rows) - 1)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=row["cost"],
        cost_pct=share,
        utid=most["utid"],
        cpu=most["cpu"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="at_least",
        advice=advice,
        evidence_sql=(
            f"SELECT process, thread, tid, priority, cpu, run_ns, {column} "
            f"FROM background_running(p_trace_id := {row['trace_id']}) WHERE {column} > 0 "
            f"ORDER BY {column} DESC, utid, cpu"
        ),
        counter_evidence_sql=(f"SELECT * FROM core_type_priority(p_trace_id := {row['trace_id']})"),
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
        "AND (trace.source <> 'perf' OR s.priority < 100) "
        "ORDER BY s.ready_ns DESC, s.trace_id, s.priority LIMIT 1"
    )
    for row in rows:
        yield Finding(
            analyzer="priority_order",
            severity="info",
            title=(
                f"{count(row['threads'], 'thread')} at priority {row['priority']} stood ready for "
                f"{percent(row['ready_pct'])} of their runnable time, "
                f"{duration(row['ready_max_ns'])} at most ({row['label']})"
            ),
            trace_id=row["trace_id"],
            cost_ns=row["ready_ns"],
            cost_pct=100 * row["ready_ns"] / row["dur_ns"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            bound="at_least",
            advice=(
                "If this work matters, raise its priority or start fewer threads of higher "
                "priority. Otherwise this is expected at its priority."
            ),
            evidence_sql=f"FROM priority_share(p_trace_id := {row['trace_id']})",
            counter_evidence_sql=(
                "SELECT process, thread, tid, ready_ns, ready_max_ns "
                f"FROM thread_summary(p_trace_id := {row['trace_id']}) "
                "ORDER BY ready_ns DESC LIMIT 20"
            ),
        )
