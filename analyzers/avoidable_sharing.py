"""Whether threads shared a core while a whole one stood idle.

Judged is the machine's time: at each moment the largest number of sharing threads that could have
had a usable idle core each, cores idle for at least 100 us alone. It is a warning from 1 % of the
window (of one thread), critical from 10 %. Sharing that only the affinity kept from idle cores is
no scheduler's doing: a warning from the same 1 %, told where a workload was pinned so. Cores of the
same type are named beside those of any: an idle E core is still better than a shared P core.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.ask.virtual_machine import claim
from schedlens.output.wording import duration, elsewhere, percent, thread_name

NEEDS = ("switches", "all_threads", "cores")
METRIC: Metric = "running"

MIN_IDLE_NS = 100_000
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0

_MATCHED = f"""
SELECT t.*, trace.label, w.start_ns, w.end_ns, w.dur_ns
FROM avoidable_sharing_total(p_min_idle_ns := {MIN_IDLE_NS}) AS t
JOIN analysis_span AS w USING (trace_id)
JOIN trace USING (trace_id)
WHERE any_type_ns IS NOT NULL
ORDER BY any_type_ns DESC, trace_id
"""


def judge(scope: Scope) -> Iterable[Finding]:
    """The recording with most avoidable sharing, or what was checked."""
    rows = scope.rows(_MATCHED)
    bound = _bound(scope)
    if bound:
        yield bound
    above = [r for r in rows if r["dur_ns"] and 100 * r["any_type_ns"] >= WARNING_PCT * r["dur_ns"]]
    if not above:
        if bound:
            return
        siblings = scope.rows("SELECT count(*) AS n FROM topology WHERE smt_index > 0")[0]["n"]
        yield Finding(
            analyzer="avoidable_sharing",
            severity="checked",
            title=(
                f"No recording in which {percent(WARNING_PCT)} of the window was shared while a "
                "whole core stood idle"
                if siblings
                else "No core has siblings: nothing can be shared"
            ),
            evidence_sql="FROM avoidable_sharing",
        )
        return
    row = above[0]
    share = 100 * row["any_type_ns"] / row["dur_ns"]
    worst = scope.rows(
        "SELECT utid, thread, tid, process, any_type_ns AS ns "
        f"FROM avoidable_sharing(p_trace_id := {row['trace_id']}, p_min_idle_ns := {MIN_IDLE_NS}) "
        "WHERE any_type_ns > 0 ORDER BY ns DESC, utid LIMIT 1"
    )
    first = worst[0] if worst else None
    named = (
        f", {thread_name(first['thread'], first['tid'], first['process'])} for "
        f"{duration(first['ns'])}"
        if first
        else ""
    )
    of_type = (
        "" if row["same_type_ns"] == row["any_type_ns"]
        else f" ({duration(row['same_type_ns'])} with one of the same type)"
    )  # fmt: skip
    yield Finding(
        analyzer="avoidable_sharing",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=(
            f"Threads shared a core for {duration(row['any_type_ns'])} ({percent(share)} of the "
            f"window) while a whole core they may use stood idle{of_type}{named} ({row['label']})"
            f"{elsewhere(len(above) - 1)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=row["any_type_ns"],
        cost_pct=share,
        utid=first["utid"] if first else None,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if row["affinity_known"] else "at_least",
        advice=claim(
            scope,
            row["trace_id"],
            "Do not pin by CPU number: ask the machine which CPUs share a core, and use one of "
            "each before any second.",
        ),
        evidence_sql=f"FROM avoidable_sharing(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM avoidable_sharing_total(p_trace_id := {row['trace_id']})",
    )


def _bound(scope: Scope) -> Finding | None:
    """The recording in which the affinity cost most, whole cores standing idle."""
    rows = scope.rows(
        "SELECT s.*, trace.label, run.placement, run.workload, w.start_ns, w.end_ns, w.dur_ns "
        "FROM sharing_by_affinity AS s JOIN trace USING (trace_id) "
        "JOIN analysis_span AS w USING (trace_id) LEFT JOIN run USING (trace_id) "
        f"WHERE affinity_pct >= {WARNING_PCT} ORDER BY workload IS NOT NULL, affinity_ns DESC, "
        "trace_id"
    )
    # Below a tenth of a thread, a workload is disturbed by kernel threads and not misplaced.
    rows = [r for r in rows if r["workload"] is None or r["affinity_pct"] >= CRITICAL_PCT]
    if not rows:
        return None
    row = rows[0]
    planned = row["workload"] is not None
    held = row["affinity_ns"] / row["dur_ns"]
    return Finding(
        analyzer="avoidable_sharing",
        severity="info" if planned else "warning",
        title=(
            f"The affinity kept {held:.3g} threads on average (at most {row['most_at_once']}) "
            f"beside a busy sibling while as many whole cores stood idle ({row['label']})"
            f"{elsewhere(len(rows) - 1)}"
        ),
        trace_id=row["trace_id"],
        cost_ns=row["affinity_ns"],
        cost_pct=row["affinity_pct"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        advice=claim(
            scope,
            row["trace_id"],
            f"The placement {row['placement']} asks for it; see what it costs in scaling_curve."
            if planned
            else "Widen the affinity, or pin to one CPU of each core before any second.",
        ),
        evidence_sql="FROM sharing_by_affinity ORDER BY affinity_ns DESC",
        counter_evidence_sql=f"FROM sibling_overlap(p_trace_id := {row['trace_id']})",
    )
