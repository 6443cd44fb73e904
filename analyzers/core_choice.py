"""Whether long-running threads ran on E cores while a whole P core that they may use was idle.

Judged are threads that present frames or are on at least 25 % of their critical path; in recordings
without frames those that ran for at least 25 % of the window. The cost is the time on E or LP-E
cores during which an unparked P core was completely idle for at least 100 us. It is a warning from
1 % of the window, critical from 10 %. The three costliest are named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import and_more, duration, percent, recordings, thread_name

NEEDS = ("switches", "all_threads", "core_types")
METRIC: Metric = "running"
KINDS = ("on_e_core_while_p_idle",)

LONG_PCT = 25.0
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0
NAMED = 3


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The long threads that lost most, or a conclusion."""
    hybrid = scope.rows(
        "SELECT coalesce(bool_or(core_type IN ('E', 'LP-E')), false) AS hybrid FROM topology"
    )[0]["hybrid"]
    asked = scope.call("core_choice", process=scope.process)
    if not hybrid:
        yield not_applicable("No CPU is known to be an E core.")
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
    yield clean(
        "No thread that frames wait for, or that runs long, was on an E core for "
        f"{percent(WARNING_PCT)} of the window while a P core was idle."
    )


def _finding(row: dict[str, Any], more: int) -> Finding:
    cost = row["e_beside_idle_p_ns"]
    share = 100 * cost / row["dur_ns"]
    name = thread_name(row["thread"], row["tid"], row["process"])
    return Finding(
        kind="on_e_core_while_p_idle",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=f"{duration(cost)} on E cores while a P core was idle",
        detail=(
            f"{recordings(row['label'])}{name} ran {duration(cost)} on E cores while a whole P "
            f"core that it may use was idle, core {row['idle_core']} longest.{and_more(more)}"
        ),
        advice=(
            "Raise this thread's priority or give it high QoS (SetThreadInformation), and set an "
            "ideal processor on a P core (SetThreadIdealProcessor) instead of a hard affinity."
        ),
        trace_id=row["trace_id"],
        cost_ns=cost,
        cost_pct=share,
        utid=row["utid"],
        about=(row["utid"],),
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if row["affinity_known"] else "at_least",
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
