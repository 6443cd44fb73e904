"""Whether lost records or unknown time touch a finding, and what its bound and title then say."""

from __future__ import annotations

import re
from dataclasses import replace

from schedlens.ask.findings import Bound, Finding, Metric, Scope
from schedlens.output.wording import bounded_title, duration, percent

# Costs taken from these queries have no bounds if events were lost, as the queries state.
_UNBOUNDED = re.compile(
    r"\b(frame_ledger|frame_parking|background_running|sharing_by_affinity|path_switch)\b"
)


def bounded(scope: Scope, finding: Finding, metric: Metric) -> Finding:
    """The finding with the bound that its recording permits; the title says "at least" if so.

    Lost records and unknown time within the finding's window (the recording's default window if
    it has none) leave an exact cost a lower bound, turn what is counted from frames into a range,
    and leave a cost from a query without bounds without one. Measurements that no trace record
    contributes to keep their bound.
    """
    if finding.severity in ("checked", "not_recorded"):
        return finding
    bound = finding.bound
    if bound == "exact" and finding.trace_id is not None and _touched(scope, finding, metric):
        bound = "range" if metric == "frames" else "at_least"
        if finding.cost_ns is not None and _UNBOUNDED.search(finding.evidence_sql):
            title = bounded_title(finding.title, finding.cost_ns, None)
            return replace(finding, bound=None, title=title)
    return replace(finding, bound=bound, title=_title(finding, bound))


def _touched(scope: Scope, finding: Finding, metric: Metric) -> bool:
    """Whether something that the cost is made of may be missing."""
    if metric == "measured":
        return False
    if metric == "frames" and not scope.rows(
        f"SELECT 1 FROM frame WHERE trace_id = {finding.trace_id} "
        "AND NOT (dialect = 'mark' OR dialect LIKE 'presentmon%') LIMIT 1"
    ):
        # The frames come from a file of their own.
        return False
    tests = [
        # A gap of which an end is not known may lie anywhere.
        "SELECT 1 FROM loss, span WHERE loss.trace_id = span.trace_id "
        "AND coalesce(loss.start_ns, span.start_ns) < span.end_ns "
        "AND coalesce(loss.end_ns, span.end_ns) > span.start_ns"
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


def _overlap(table: str, which: str) -> str:
    return (
        f"SELECT 1 FROM {table} AS s, span WHERE s.trace_id = span.trace_id "
        f"AND s.state = 'unknown' AND s.ts < span.end_ns AND s.ts + s.dur > span.start_ns "
        f"AND {which}"
    )


def _title(finding: Finding, bound: Bound | None) -> str:
    """The title with "at least" before its cost where that is a lower bound."""
    title = finding.title
    if bound == "at_least" and "at least" not in title.lower():
        costs = [] if finding.cost_ns is None else [duration(finding.cost_ns)]
        costs += [] if finding.cost_pct is None else [percent(finding.cost_pct)]
        for cost in costs:
            said, times = re.subn(
                rf"(?<![\d.]){re.escape(cost)}", f"at least {cost}", title, count=1
            )
            if times:
                return said
        return f"{title}: at least {costs[0]}" if costs else title
    if bound == "range" and finding.bound == "exact":
        return f"{title}, not exact: records were lost"
    return title
