"""Whether lost records or unknown time touch a finding, and what its bound and words then say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, duration, percent, with_bound

# Costs taken from these queries have no bounds if events were lost, as the queries state.
_UNBOUNDED = re.compile(
    r"\b(frame_ledger|frame_parking|background_running|sharing_by_affinity|path_switch)\b"
)
# A time or share in a finding's words, and the word that bounds it.
_AMOUNT = re.compile(
    r"(at least |at most |up to |about |between )?\d[\d.,]*[ \u00a0](?:ns|us|ms|s|%)"
)
# Below this share of unknown CPU time, what was recorded is as good as the whole.
_MISSED_PCT = 0.1
_NOT_EXACT = " Records were lost: the cost is not exact."


def bounded(scope: Scope, finding: Finding, metric: Metric) -> Finding:
    """The finding with the bound that its recording permits; its words say "at least" if so.

    Lost records and unknown time within the finding's window (the recording's default window if
    it has none) leave an exact cost a lower bound, turn what is counted from frames into a range,
    and leave a cost from a query without bounds without one. Measurements that no trace record
    contributes to keep their bound.
    """
    bound, detail = finding.bound, finding.detail
    if bound == "exact" and finding.trace_id is not None and _touched(scope, finding, metric):
        bound = "range" if metric == "frames" else "at_least"
        if metric == "frames" and _is_partial(scope, finding):
            # Frames that were left out may have cost more.
            bound = None
        elif finding.cost_ns is not None and _UNBOUNDED.search(finding.evidence_sql):
            bound = None
        elif bound == "range":
            detail += _NOT_EXACT
    elif bound == "range" and finding.cost_low_ns is not None and _is_partial(scope, finding):
        # An estimate from the part of the recording that a scrubbed one contains.
        bound = None
    costs = [duration(finding.cost_ns)] if finding.cost_ns is not None else []
    if not costs and finding.cost_pct is not None:
        costs = [percent(finding.cost_pct)]
    title = finding.title
    for cost in costs:
        title, detail = with_bound(title, cost, bound), with_bound(detail, cost, bound)
    return replace(finding, bound=bound, title=title, detail=detail)


def _touched(scope: Scope, finding: Finding, metric: Metric) -> bool:
    """Whether something that the cost is made of may be missing."""
    if metric == "measured":
        return False
    if metric == "frames" and not scope.rows(
        f"SELECT 1 FROM frame WHERE trace_id = {finding.trace_id} "
        "AND NOT (dialect = 'mark' OR dialect LIKE 'presentmon%') LIMIT 1"
    ):
        # The frames come from a file of their own.
        return _is_partial(scope, finding)
    tests = [
        # A gap without a known end may be anywhere.
        "SELECT 1 FROM loss, span WHERE loss.trace_id = span.trace_id "
        "AND coalesce(loss.start_ns, span.start_ns) < span.end_ns "
        "AND coalesce(loss.end_ns, span.end_ns) > span.start_ns",
        # What ends where the part of a scrubbed recording ends may have continued.
        "SELECT 1 FROM loss, span WHERE loss.trace_id = span.trace_id "
        "AND signalled_by = 'left_out' "
        "AND loss.start_ns <= span.end_ns AND loss.end_ns >= span.start_ns",
    ]
    if metric == "running" and finding.utid is None:
        tests.append(_overlap("cpu_state", "true"))
    elif finding.utid is not None:
        tests.append(_overlap("thread_state", f"s.utid = {finding.utid}"))
    elif metric == "ready":
        # Nothing shows that a thread without any record ever wanted to run.
        tests.append(
            _overlap("thread_state", "s.utid IN (SELECT utid FROM sched_slice WHERE NOT is_idle)")
        )
    window = scope.call("analysis_span", trace_id=finding.trace_id)
    start = "start_ns" if finding.start_ns is None else str(finding.start_ns)
    end = "end_ns" if finding.end_ns is None else str(finding.end_ns)
    span = f"SELECT trace_id, {start} AS start_ns, {end} AS end_ns FROM ({window})"
    return any(scope.rows(f"WITH span AS ({span}) {test} LIMIT 1") for test in tests)


def _is_partial(scope: Scope, finding: Finding) -> bool:
    """Whether a scrubbed recording leaves out time of the finding."""
    window = scope.call("analysis_span", trace_id=finding.trace_id)
    return bool(
        scope.rows(
            f"SELECT 1 FROM loss JOIN ({window}) AS span USING (trace_id) "
            "WHERE signalled_by = 'left_out' AND loss.start_ns < span.end_ns "
            "AND loss.end_ns > span.start_ns LIMIT 1"
        )
    )


def _overlap(table: str, which: str) -> str:
    return (
        f"SELECT 1 FROM {table} AS s, span WHERE s.trace_id = span.trace_id "
        f"AND s.state = 'unknown' AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns "
        f"AND {which}"
    )


def unknown_ns(row: dict[str, Any]) -> int | None:
    """Unknown CPU time of a row of `trace_quality`, without that of streams that end early, ns."""
    unknown = row["unknown_cpu_ns"]
    if unknown is None:
        return None
    if not row["switches"]:
        # Without the scheduler's own event CPUs are unknown although no record was lost.
        return int(min(unknown, row["gap_ns"] or 0))
    return int(max(0, unknown - row["edge_ns"] - row["left_out_ns"]))


def unknown_pct(row: dict[str, Any]) -> float:
    """The same as a share of all CPU time in the window, percent."""
    unknown = unknown_ns(row)
    if not unknown or row["unknown_cpu_pct"] is None:
        return 0.0
    return float(row["unknown_cpu_pct"] * unknown / row["unknown_cpu_ns"])


def missed(scope: Scope) -> dict[int, float]:
    """The recordings in which CPU time is unknown, and its share in percent."""
    rows = scope.rows(f"SELECT * FROM ({scope.call('trace_quality')})")
    shares = {row["trace_id"]: unknown_pct(row) for row in rows}
    return {trace_id: pct for trace_id, pct in shares.items() if pct >= _MISSED_PCT}


def limited(finding: Finding, missed_pct: float | None) -> Finding:
    """The finding; its detail says so if it gives amounts without a bound despite missing records.

    `missed_pct`: the share of CPU time that is unknown; None if it is negligible.
    """
    if missed_pct is None or all(found[1] for found in _AMOUNT.finditer(finding.detail)):
        return finding
    note = f" {percent(missed_pct)} of the CPU time is unknown; amounts are of what was recorded."
    return replace(finding, detail=finding.detail + note)


def unjudged(missed_pct: list[float], recordings: int) -> str:
    """What to add to the statement that so many recordings show no problem; empty if all was seen.

    `missed_pct`: the shares of CPU time that are unknown in some of them.
    """
    if not missed_pct:
        return ""
    share = f" {percent(max(missed_pct))} of the CPU time is unknown"
    if recordings > 1:
        where = count(len(missed_pct), "recording")
        share = f" Up to{share} in {where}"
    return f"{share}: problems there would not show."
