"""How much less (or more) SMT siblings were busy together in one recording than in another.

Each recording is compared with the first; the one whose share of busy core time differs most is
info, from 5 % of the first's share on. The loads are given as well: with less work there is less
sharing.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import percent

NEEDS = ("switches", "all_threads", "cores")
METRIC: Metric = "running"
KINDS = ("sharing_differs",)

INFO_PCT = 5.0
_BUSY = "both of busy core time"


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The pair that differs most, or a conclusion."""
    asked = scope.call("smt_comparison", process=scope.process)
    rows = scope.rows(f"SELECT * FROM ({asked}) WHERE first_pct IS NOT NULL AND second_pct <> 0")
    pairs: dict[int, dict[str, dict[str, float]]] = {}
    names: dict[int, tuple[str, str]] = {}
    for row in rows:
        pairs.setdefault(row["second_trace_id"], {})[row["measure"]] = row
        names[row["second_trace_id"]] = (row["first"], row["second"])
    changed = [
        number
        for number, measures in pairs.items()
        if _BUSY in measures and abs(measures[_BUSY]["less_pct"] or 0.0) >= INFO_PCT
    ]
    if not changed:
        yield (
            clean(
                f"No recording differs by {percent(INFO_PCT)} from the first in how much SMT "
                "siblings were busy together."
            )
            if pairs
            else not_applicable("There are no two recordings with SMT siblings to compare.")
        )
        return
    number = max(changed, key=lambda each: (abs(pairs[each][_BUSY]["less_pct"]), -each))
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
    loads = f"; load {percent(load['first_pct'])} and {percent(load['second_pct'])}" if load else ""
    yield Finding(
        kind="sharing_differs",
        severity="info",
        title=f"SMT siblings were busy together {change(_BUSY)} than before",
        detail=(
            f"SMT siblings were busy together for {', '.join(parts)} in {second} than in "
            f"{first}{loads}."
        ),
        advice=(
            "Compare the share of busy core time, which idle time does not dilute, and check "
            "`FROM smt_tax` and frame times to see whether less sharing helped."
        ),
        trace_id=number,
        evidence_sql=f"FROM smt_comparison(p_trace_id := {number})",
        counter_evidence_sql=(
            "SELECT trace_id, cores, busy_pct, both_pct, shared_of_busy_pct FROM "
            "sibling_overlap_total"
        ),
    )
