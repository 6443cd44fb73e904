"""Names the code in which the thread of a finding waits, and that of its waker.

Only recordings with stacks have it. Findings about ready time name where most of it begins,
findings about frames where the thread waits longest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import code_name, duration, thread_name, unbroken

_METRICS: frozenset[Metric] = frozenset({"ready", "frames"})
# Each window of a finding is another question about all waits in it.
_MOST = 12
# A smaller part of the thread's time would mislead.
LEAST_SHARE = 0.2


def named(
    scope: Scope,
    findings: Sequence[Finding],
    metrics: dict[str, Metric],
    recorded: Collection[int],
) -> list[Finding]:
    """The findings; the first of those about a thread's ready time or frames also name its code.

    `recorded` are the numbers of the recordings with stacks.
    """
    made: list[Finding] = []
    left = _MOST if recorded else 0
    for finding in findings:
        metric = metrics.get(finding.analyzer)
        if (
            left
            and finding.trace_id in recorded
            and finding.utid is not None
            and metric in _METRICS
            # It does not name code itself.
            and "`" not in finding.detail
        ):
            left -= 1
            try:
                said = _sentence(scope, finding, metric == "ready")
            except duckdb.OutOfMemoryException:
                said, left = None, 0
            if said is not None:
                detail = unbroken(f"{finding.detail} {said}")
                made.append(replace(finding, detail=detail))
                continue
        made.append(finding)
    return made


def _sentence(scope: Scope, finding: Finding, ready: bool) -> str | None:
    """What to add to a finding; None if no part of the time has a stack that stands out."""
    window = {
        "trace_id": finding.trace_id, "from_ns": finding.start_ns, "to_ns": finding.end_ns
    }  # fmt: skip
    column = "ready_ns" if ready else "wait_ns"
    pairs = scope.rows(
        f"SELECT * {scope.call('blocked_by', **window)} "
        f"WHERE utid = {finding.utid} AND {column} > 0 ORDER BY {column} DESC, stack_id LIMIT 1"
    )
    lost = _lost_cpu(scope, finding, window) if ready else None
    total = _total_ns(scope, finding, window, "ready" if ready else "waiting")
    pair = pairs[0] if pairs else None
    if lost is not None and (pair is None or lost["ns"] > pair[column]):
        if lost["ns"] < LEAST_SHARE * total or lost["frame"] is None:
            return None
        return (
            f"It lost its CPU in {code_name(lost['frame'], lost['own_frame'])}, and was then "
            f"ready for {duration(lost['ns'])}."
        )
    if pair is None or pair[column] < LEAST_SHARE * total or pair["stack_id"] is None:
        return None
    where = code_name(pair["frame"], pair["own_frame"])
    then = f", and is then ready, {duration(pair['ready_ns'])} in all" if ready else ""
    name = thread_name(pair["thread"], pair["tid"])
    length = "" if ready else f" {duration(pair['wait_ns'])}"
    return f"{name} waits{length} in {where}, {_woken(pair)}{then}."


def _woken(pair: dict[str, Any]) -> str:
    """`woken by Worker 3 (17) in `JobQueue::push``."""
    if pair["from_interrupt"]:
        return "woken by an interrupt, such as a timer"
    if pair["waker_thread"] is None:
        return "woken by an unknown thread"
    by = f"woken by {thread_name(pair['waker_thread'], pair['waker_tid'])}"
    if pair["waker_stack_id"] is None:
        return by
    return f"{by} in {code_name(pair['waker_frame'], pair['waker_own_frame'])}"


def _lost_cpu(
    scope: Scope, finding: Finding, window: dict[str, int | None]
) -> dict[str, Any] | None:
    """The code in which the thread lost its CPU before most of its ready time without a wakeup."""
    rows = scope.rows(
        "SELECT coalesce(t.user_frame, t.frame) AS frame, t.own_frame, o.ns "
        "FROM (SELECT stack_id, sum(dur_ns)::BIGINT AS ns "
        f"{scope.call('off_cpu_slice', **window)} "
        f"WHERE utid = {finding.utid} AND state = 'ready' AND waker_utid IS NULL "
        "AND stack_id IS NOT NULL GROUP BY stack_id ORDER BY ns DESC, stack_id LIMIT 1) AS o "
        f"JOIN stack_text({finding.trace_id}) AS t USING (stack_id)"
    )
    return rows[0] if rows else None


def _total_ns(scope: Scope, finding: Finding, window: dict[str, int | None], state: str) -> int:
    """The time that the thread spent in a state in the window of the finding."""
    (row,) = scope.rows(
        f"SELECT coalesce(sum(dur_ns), 0)::BIGINT AS ns {scope.call('off_cpu_slice', **window)} "
        f"WHERE utid = {finding.utid} AND state = '{state}'"
    )
    return int(row["ns"])
