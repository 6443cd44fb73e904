"""Whether long-running threads sat on E cores while a whole P core that they may use stood idle.

Judged are threads that present frames or are on at least 25 % of their critical path; in recordings
without frames those that ran for at least 25 % of the window. Counted is the time on E or LP-E
cores in which an unparked P core stood idle, wholly and for at least 100 us on end. It is a warning
from 1 % of the window, critical from 10 %. The three costliest are named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import and_more, duration, percent, thread_name

NEEDS = ("switches", "all_threads", "core_types")
METRIC: Metric = "running"

LONG_PCT = 25.0
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0
NAMED = 3


def judge(scope: Scope) -> Iterable[Finding]:
    """The long threads that lost most, or what was checked."""
    hybrid = scope.rows(
        "SELECT coalesce(bool_or(core_type IN ('E', 'LP-E')), false) AS hybrid FROM topology"
    )[0]["hybrid"]
    asked = scope.call("core_choice", process=scope.process)
    if not hybrid:
        yield Finding(
            analyzer="core_choice",
            severity="checked",
            title="No E cores are known here: no thread can be on one",
            evidence_sql="SELECT trace_id, cpu, core, core_type, efficiency_class FROM topology",
        )
        return
    rows = scope.rows(
        "WITH critical AS (SELECT DISTINCT trace_id, utid FROM path_thread "
        f"WHERE presents OR path_pct >= {LONG_PCT} "
        "UNION SELECT trace_id, utid FROM frame WHERE utid IS NOT NULL) "
        f"SELECT c.*, w.start_ns, w.end_ns, w.dur_ns, trace.label FROM ({asked}) AS c "
        "JOIN analysis_span AS w USING (trace_id) JOIN trace USING (trace_id) "
        "WHERE CASE WHEN c.trace_id IN (SELECT trace_id FROM critical) "
        "THEN c.utid IN (SELECT utid FROM critical) "
        f"ELSE 100 * c.run_ns >= {LONG_PCT} * w.dur_ns END "
        f"AND 100 * c.e_beside_idle_p_ns >= {WARNING_PCT} * w.dur_ns "
        "ORDER BY c.e_beside_idle_p_ns DESC, c.trace_id, c.utid"
    )
    for place, row in enumerate(rows[:NAMED]):
        yield _finding(row, len(rows) - NAMED if place == NAMED - 1 else 0)
    if rows:
        return
    yield Finding(
        analyzer="core_choice",
        severity="checked",
        title=(
            "No thread that frames wait for, or that runs long, was on an E core for "
            f"{percent(WARNING_PCT)} of the window while a P core stood idle"
        ),
        evidence_sql=(
            f"SELECT * FROM ({asked}) ORDER BY e_beside_idle_p_ns DESC, trace_id, utid LIMIT 20"
        ),
    )


def _finding(row: dict[str, Any], more: int) -> Finding:
    cost = row["e_beside_idle_p_ns"]
    share = 100 * cost / row["dur_ns"]
    name = thread_name(row["thread"], row["tid"], row["process"])
    return Finding(
        analyzer="core_choice",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=(
            f"{name} ran {duration(cost)} on E cores while a whole P core it may use stood idle, "
            f"core {row['idle_core']} longest ({row['label']}){and_more(more)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=cost,
        cost_pct=share,
        utid=row["utid"],
        about=(row["utid"],),
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if row["affinity_known"] else "at_least",
        advice=(
            "Raise this thread's priority or mark it for high QoS, and give it an ideal processor "
            "on a P core (SetThreadIdealProcessor): no hard affinity."
        ),
        evidence_sql=(
            "SELECT cpu, core_type, run_ns, alone_ns, shared_ns, switches_in, longest_ns "
            f"FROM thread_core_use WHERE utid = {row['utid']}"
        ),
        counter_evidence_sql=(
            "SELECT core, count(*) AS spells, sum(dur)::BIGINT AS idle_ns, max(dur) AS longest_ns "
            f"FROM whole_idle_core(p_trace_id := {row['trace_id']}) WHERE core_type = 'P' "
            "GROUP BY core ORDER BY core"
        ),
    )
