"""Whether a CPU quota throttled threads.

What the system counts as throttled is summed over a cgroup's run queues; what it cost is the ready
time of the cgroup's threads that the trace shows under it. It is a warning from 1 % of the step
(below that a quota does what it is for), critical from 20 %. A cgroup that ended before it was read
is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import and_more, count, duration, percent, recordings

NEEDS = ("cgroups",)
METRIC: Metric = "measured"
KINDS = ("quota", "unread_quota")

WARNING_PCT = 1.0
CRITICAL_PCT = 20.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The cgroup that was held back most, or a conclusion."""
    rows = scope.rows(
        "SELECT c.*, trace.label, w.start_ns, w.end_ns FROM throttled_cgroup AS c "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        f"WHERE 100.0 * throttled_ns >= {WARNING_PCT} * step_ns "
        "ORDER BY throttled_ns DESC, trace_id, cgroup"
    )
    unread = scope.rows(
        "SELECT c.*, trace.label FROM throttled_cgroup AS c JOIN trace USING (trace_id) "
        "WHERE throttled_ns IS NULL AND NOT is_complete AND threads > 0 "
        "ORDER BY ready_ns DESC NULLS LAST, threads DESC, trace_id, cgroup"
    )
    if not rows and unread and _ready_pct(unread[0]) >= WARNING_PCT:
        yield _unread(unread)
        return
    if not rows:
        counted = scope.rows(
            "SELECT count(DISTINCT trace_id || cgroup) AS cgroups, "
            "(SELECT count(*) FROM throttled_cgroup WHERE quota_cpus IS NOT NULL) AS limited "
            "FROM snapshot_cgroup"
        )[0]
        left_out = f" ({len(unread)} ended before they were read)" if unread else ""
        yield (
            clean(
                f"{counted['cgroups']} cgroups, {counted['limited']} with a CPU quota: none was "
                f"throttled for {percent(WARNING_PCT)} of a step{left_out}."
            )
            if counted["cgroups"]
            else not_applicable("No snapshot of cgroups was taken.")
        )
        return
    row = rows[0]
    share = 100.0 * row["throttled_ns"] / row["step_ns"]
    others = len({r["trace_id"] for r in rows} - {row["trace_id"]})
    seen = row["ready_throttled_ns"]
    least = "" if row["is_complete"] else "at least "
    yield Finding(
        kind="quota",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=f"CPU quota throttled threads for {least}{duration(row['throttled_ns'])}",
        detail=(
            f"{recordings(row['label'], others)}the CPU quota of cgroup {row['cgroup']} throttled "
            f"its threads for {least}{duration(row['throttled_ns'])} of a step of "
            f"{duration(row['step_ns'])}."
        ),
        advice=(
            "Raise or remove the quota (cpu.max), or run fewer threads at a time in this cgroup: "
            "threads that use it up early in a period all wait for its end."
        ),
        trace_id=row["trace_id"],
        cost_ns=seen if seen else row["throttled_ns"],
        cost_pct=share,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if seen else "range",
        cost_of="of the step",
        evidence_sql=f"SELECT * FROM throttled_cgroup WHERE trace_id = {row['trace_id']}",
    )


def _ready_pct(row: dict[str, Any]) -> float:
    """Ready time of a cgroup's threads in percent of the step: more cannot have been throttled."""
    return 100.0 * (row["ready_ns"] or 0) / row["step_ns"] if row["step_ns"] else 100.0


def _unread(rows: list[dict[str, Any]]) -> Finding:
    """Cgroups that ended before their counters were read: nothing is known of a quota there."""
    row = rows[0]
    seen = row["ready_throttled_ns"] or 0
    step_ns = row["step_ns"] or 0
    share = 100.0 * seen / step_ns if step_ns else 0.0
    waited = (
        f"; its threads were ready for {duration(seen)} while their CPU was idle" if seen else ""
    )
    return Finding(
        kind="unread_quota",
        severity="warning" if share >= WARNING_PCT else "info",
        title=f"Quota of {count(row['threads'], 'thread')} is unknown: cgroup ended too early",
        detail=(
            f"{recordings(row['label'])}cgroup {row['cgroup']} with "
            f"{count(row['threads'], 'thread')} ended before its counters were read{waited}."
            f"{and_more(len(rows) - 1)}"
        ),
        advice=(
            "Check the CPU quota of this cgroup where it is set (cpu.max, `--cpus` of a container, "
            "CPUQuota= of a unit), or record again and keep the cgroup until the recording ends."
        ),
        trace_id=row["trace_id"],
        cost_ns=seen or None,
        cost_pct=share if seen else None,
        bound="range",
        cost_of="of the step",
        evidence_sql=f"SELECT * FROM throttled_cgroup WHERE trace_id = {row['trace_id']}",
    )
