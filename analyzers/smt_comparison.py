"""How much less (or more) siblings were busy together in one recording than in another.

Each recording is compared with the first; told is the one whose share of busy core time differs
most, from 5 % of the first's share on. The loads stand beside it: with less work there is less
sharing.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import percent

NEEDS = ("switches", "all_threads", "cores")
METRIC: Metric = "running"

TOLD_PCT = 5.0
_BUSY = "both of busy core time"


def judge(scope: Scope) -> Iterable[Finding]:
    """The pair that differs most, or what was checked."""
    asked = scope.call("smt_comparison", process=scope.process)
    rows = scope.rows(f"SELECT * FROM ({asked}) WHERE first_pct IS NOT NULL AND second_pct <> 0")
    pairs: dict[int, dict[str, dict[str, float]]] = {}
    names: dict[int, tuple[str, str]] = {}
    for row in rows:
        pairs.setdefault(row["second_trace_id"], {})[row["measure"]] = row
        names[row["second_trace_id"]] = (row["first"], row["second"])
    told = [
        number
        for number, measures in pairs.items()
        if _BUSY in measures and abs(measures[_BUSY]["less_pct"] or 0.0) >= TOLD_PCT
    ]
    if not told:
        yield Finding(
            analyzer="smt_comparison",
            severity="checked",
            title=(
                f"No recording differs by {percent(TOLD_PCT)} from the first in how much siblings "
                "were busy together"
                if pairs
                else "No two recordings with siblings to compare"
            ),
            evidence_sql="FROM smt_comparison",
        )
        return
    number = max(told, key=lambda each: (abs(pairs[each][_BUSY]["less_pct"]), -each))
    measures, (first, second) = pairs[number], names[number]

    def change(measure: str) -> str:
        less = measures[measure]["less_pct"] or 0.0
        return f"{percent(abs(less))} {'less' if less >= 0 else 'more'}"

    parts = [
        f"{change(measure)} of {measure.split(' of ', 1)[1]}"
        for measure in ("both of trace time", _BUSY, "shared of thread time")
        if measure in measures
    ]
    load = measures.get("load")
    beside = (
        f"; load {percent(load['first_pct'])} and {percent(load['second_pct'])}" if load else ""
    )
    yield Finding(
        analyzer="smt_comparison",
        severity="info",
        title=(
            f"Siblings were busy together for {', '.join(parts)} in {second} than in {first}"
            f"{beside}"
        ),
        trace_id=number,
        evidence_sql=f"FROM smt_comparison(p_trace_id := {number})",
        counter_evidence_sql=(
            "SELECT trace_id, cores, busy_pct, both_pct, shared_of_busy_pct FROM "
            "sibling_overlap_total"
        ),
        advice=(
            "Compare by the share of busy core time: idle time dilutes the share of trace time. "
            "Whether less sharing is a gain say smt_tax and the frames."
        ),
    )
