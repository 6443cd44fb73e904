"""Whether busy threads wait for the last-level cache instead of computing.

A thread that ran for at least 25 % of the window is reported if at least 20 % of its cycles were
stalled on loads that missed L2 and hit L3 (L3 bound), from 40 % on as a warning. The cost is that
share of its running time. Only recordings with both stall counters answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import and_more, duration, percent, recordings, thread_name

NEEDS = ("counters",)
METRIC: Metric = "running"
KINDS = ("llc_bound",)

RAN_PCT = 25.0
INFO_PCT = 20.0
WARNING_PCT = 40.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The thread that lost most to it, or a conclusion."""
    asked = scope.call("cache_bound", process=scope.process)
    known = scope.rows(
        f"SELECT c.*, (c.dur * c.l3_bound_pct / 100)::BIGINT AS cost_ns, trace.label, "
        "w.start_ns, w.end_ns, w.dur_ns "
        f"FROM ({asked}) AS c JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "WHERE c.l3_bound_pct IS NOT NULL ORDER BY cost_ns DESC, c.trace_id, c.utid, c.core_type"
    )
    if not known:
        yield not_applicable(
            "Stalls on L2 and L3 misses were not counted (collect --counters "
            "cycle_activity.stalls_l2_miss,cycle_activity.stalls_l3_miss on Intel cores)."
        )
        return
    rows = [
        row
        for row in known
        if 100 * row["dur"] >= RAN_PCT * row["dur_ns"] and row["l3_bound_pct"] >= INFO_PCT
    ]
    if not rows:
        yield clean(
            f"No thread that ran for {percent(RAN_PCT)} of the window spent {percent(INFO_PCT)} of "
            "its cycles on loads from the last-level cache."
        )
        return
    row = rows[0]
    misses = row["l2_misses_per_1000"]
    yield Finding(
        kind="llc_bound",
        severity="warning" if row["l3_bound_pct"] >= WARNING_PCT else "info",
        title=f"Busy thread is L3 bound for {percent(row['l3_bound_pct'])} of its cycles",
        detail=(
            f"{recordings(row['label'])}{thread_name(row['thread'], row['tid'], row['process'])} "
            f"was stalled on loads from the last-level cache for {percent(row['l3_bound_pct'])} of "
            f"its cycles, {duration(row['cost_ns'])} of {duration(row['dur'])}"
            f"{'' if misses is None else f', at {misses:.3g} L2 misses per 1000 instructions'}."
            f"{and_more(len(rows) - 1)}"
        ),
        advice=(
            "Make its data fit into L2, or run fewer threads that share this last-level cache: "
            "compare L3 bound with fewer workers (`FROM cache_bound`)."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["cost_ns"],
        cost_pct=100 * row["cost_ns"] / row["dur_ns"],
        utid=row["utid"],
        about=(row["utid"],),
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="at_least",
        evidence_sql=(
            "SELECT core_type, dur, cpi, l2_misses_per_1000, l3_misses_per_1000, l3_bound_pct, "
            f"memory_bound_pct FROM cache_bound WHERE utid = {row['utid']}"
        ),
        counter_evidence_sql=(f"FROM counter_meaning(p_trace_id := {row['trace_id']})"),
    )
