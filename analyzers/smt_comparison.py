"""How much less (or more) SMT siblings were busy together in one recording than in another.

Only recordings of the same thing are compared (recording_pair): a fault and its fix, two placements
or two builds. The pair whose share of busy core time differs most is info, from 5 % of the first's
share on. The loads are given as well: with less work there is less sharing.
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
    paired = scope.rows(scope.call("recording_pair"))
    pairs: dict[tuple[int, int], dict[str, dict[str, float]]] = {}
    names: dict[tuple[int, int], tuple[str, str]] = {}
    for base in dict.fromkeys(pair["first_trace_id"] for pair in paired):
        asked = scope.call("smt_comparison", base=base, process=scope.process)
        others = {p["second_trace_id"] for p in paired if p["first_trace_id"] == base}
        for row in scope.rows(
            f"SELECT * FROM ({asked}) WHERE first_pct IS NOT NULL AND second_pct <> 0"
        ):
            if row["second_trace_id"] in others:
                key = (base, row["second_trace_id"])
                pairs.setdefault(key, {})[row["measure"]] = row
                names[key] = (row["first"], row["second"])
    changed = [
        pair
        for pair, measures in pairs.items()
        if _BUSY in measures and abs(measures[_BUSY]["less_pct"] or 0.0) >= INFO_PCT
    ]
    if not changed:
        yield (
            clean(
                f"No recording differs by {percent(INFO_PCT)} from that before it in how much SMT "
                "siblings were busy together."
            )
            if pairs
            else not_applicable("There are no two recordings of the same thing with SMT siblings.")
        )
        return
    chosen = max(changed, key=lambda each: (abs(pairs[each][_BUSY]["less_pct"]), -each[1]))
    base, number = chosen
    measures, (first, second) = pairs[chosen], names[chosen]

    def change(measure: str) -> str:
        less = measures[measure]["less_pct"] or 0.0
        return f"{percent(abs(less))} {'less' if less >= 0 else 'more'}"

    parts = [
        f"{change(measure)} of {measure.split(' of ', 1)[1]}"
        for measure in ("both of trace time", _BUSY, "shared of thread time")
        if measure in measures
    ]
    load = measures.get("load")
    loads = (
        f"; the load was {percent(load['second_pct'])} instead of {percent(load['first_pct'])}"
        if load
        else ""
    )
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
        evidence_sql=f"FROM smt_comparison(p_trace_id := {number}, p_base := {base})",
        counter_evidence_sql=(
            "SELECT trace_id, cores, busy_pct, both_pct, shared_of_busy_pct FROM "
            "sibling_overlap_total"
        ),
    )
