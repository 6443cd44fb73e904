"""Whether threads shared a core while a whole core was idle.

The cost is machine time: at each moment the largest number of sharing threads that could each have
had a usable idle core, counting only cores that are idle for at least 100 us. It is a warning from
1 % of the window (of one thread), critical from 10 %. Sharing that only the affinity caused is a
warning from the same 1 %, and info where the plan of a workload pinned the threads. Idle cores of
the same type are reported as well as those of any type: an idle E core is still better than a
shared P core.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.ask.virtual_machine import claim
from schedlens.output.wording import duration, percent, recordings, thread_name

NEEDS = ("switches", "all_threads", "cores")
METRIC: Metric = "running"
KINDS = ("shared_core", "shared_by_affinity")

MIN_IDLE_NS = 100_000
WARNING_PCT = 1.0
CRITICAL_PCT = 10.0

_MATCHED = """
SELECT t.*, trace.label, w.start_ns, w.end_ns, w.dur_ns
FROM ({asked}) AS t
JOIN analysis_span AS w USING (trace_id)
JOIN trace USING (trace_id)
WHERE any_type_ns IS NOT NULL
ORDER BY any_type_ns DESC, trace_id
"""


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The recording with most avoidable sharing, or a conclusion."""
    # Idle periods of cores count from the default length on, as in the report.
    rows = scope.rows(_MATCHED.format(asked=scope.call("avoidable_sharing_total")))
    # Without a shared core, idle ones cannot have been of use.
    bound = _bound(scope) if any(row["shared_ns"] for row in rows) else None
    if bound:
        yield bound
    above = [r for r in rows if r["dur_ns"] and 100 * r["any_type_ns"] >= WARNING_PCT * r["dur_ns"]]
    if not above:
        if bound:
            return
        siblings = scope.rows("SELECT count(*) AS n FROM topology WHERE smt_index > 0")[0]["n"]
        yield (
            clean(
                f"No recording had {percent(WARNING_PCT)} of avoidable sharing: threads shared a "
                "core only while no whole core was idle."
            )
            if siblings
            else not_applicable("No core has SMT siblings.")
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
        f"; {thread_name(first['thread'], first['tid'], first['process'])} shared longest, "
        f"{duration(first['ns'])}"
        if first
        else ""
    )
    of_type = (
        "" if row["same_type_ns"] in (None, row["any_type_ns"])
        else f", {duration(row['same_type_ns'])} of it a core of the same type"
    )  # fmt: skip
    yield Finding(
        kind="shared_core",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=(
            f"Threads shared cores for {duration(row['any_type_ns'])} while whole cores were idle"
        ),
        detail=(
            f"{recordings(row['label'], len(above) - 1)}threads shared a core for "
            f"{duration(row['any_type_ns'])} ({percent(share)} of the window) while a whole core "
            f"that they may use was idle{of_type}{named}."
        ),
        advice=claim(
            scope,
            row["trace_id"],
            "Pin by topology, not by CPU number: use one logical CPU of each core "
            "(thread_siblings_list, GetLogicalProcessorInformationEx) before any SMT sibling.",
        ),
        trace_id=row["trace_id"],
        cost_ns=row["any_type_ns"],
        cost_pct=share,
        utid=first["utid"] if first else None,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if row["affinity_known"] else "at_least",
        evidence_sql=f"FROM avoidable_sharing(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=f"FROM avoidable_sharing_total(p_trace_id := {row['trace_id']})",
    )


def _bound(scope: Scope) -> Finding | None:
    """The recording in which the affinity cost most, whole cores standing idle."""
    rows = scope.rows(
        "SELECT s.*, trace.label, run.placement, run.workload, w.start_ns, w.end_ns, w.dur_ns "
        f"FROM ({scope.call('sharing_by_affinity')}) AS s JOIN trace USING (trace_id) "
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
    sharing = row["affinity_ns"] / row["dur_ns"]
    return Finding(
        kind="shared_by_affinity",
        severity="info" if planned else "warning",
        title=f"Affinity kept {sharing:.3g} threads on busy cores while others were idle",
        detail=(
            f"{recordings(row['label'], len(rows) - 1)}affinity kept {sharing:.3g} threads on "
            f"average (at most {row['most_at_once']}) on a CPU whose SMT sibling was busy, while "
            f"as many whole cores were idle, for {duration(row['affinity_ns'])} in total."
        ),
        advice=claim(
            scope,
            row["trace_id"],
            "Compare throughput by placement (`FROM scaling_curve`): this sharing is expected with "
            f"`--placement {row['placement']}`."
            if planned
            else "Widen the affinity (taskset -p, SetThreadAffinityMask), or pin to one logical "
            "CPU of each core before any SMT sibling.",
        ),
        trace_id=row["trace_id"],
        cost_ns=row["affinity_ns"],
        cost_pct=row["affinity_pct"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        evidence_sql="FROM sharing_by_affinity ORDER BY affinity_ns DESC",
        counter_evidence_sql=f"FROM sibling_overlap(p_trace_id := {row['trace_id']})",
    )
