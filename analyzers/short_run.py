"""Whether a thread that looks like a worker carries the frames.

Such a thread is on at least 25 % of the critical path of the frames, presents none of them itself,
and at least 50 % of its runs after a wakeup last under 1 ms. It is info; a warning if it lost its
CPU during work that the frame waited for, critical if that took 5 % of the path's time or more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, Severity, clean, not_applicable
from schedlens.output.wording import (
    and_more,
    count,
    duration,
    number,
    percent,
    recordings,
    thread_name,
)

NEEDS = ("switches", "frames", "paths")
METRIC: Metric = "frames"
KINDS = ("worker_on_path",)

PATH_PCT = 25.0
SHORT_PCT = 50.0
CRITICAL_PCT = 5.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The thread that was longest on the path, or a conclusion."""
    path = scope.call("path_thread", process=scope.process)
    switch = scope.call("path_switch", process=scope.process)
    rows = scope.rows(
        f"""
        SELECT
          p.*,
          s.runs,
          s.short_pct,
          trace.label,
          w.start_ns,
          w.end_ns,
          w.dur_ns,
          coalesce(c.switches, 0) AS switches,
          coalesce(c.off_ns, 0)::BIGINT AS off_ns,
          coalesce(c.to_e, 0) AS to_e,
        FROM ({path}) AS p
        JOIN short_run AS s ON s.utid = p.utid
        JOIN trace ON trace.trace_id = p.trace_id
        JOIN analysis_span AS w ON w.trace_id = p.trace_id
        LEFT JOIN (
          SELECT
            upid,
            utid,
            count(*) AS switches,
            sum(off_ns) AS off_ns,
            count(*) FILTER (WHERE to_type IN ('E', 'LP-E') AND from_type NOT IN ('E', 'LP-E'))
              AS to_e,
          FROM ({switch})
          GROUP BY upid, utid
        ) AS c ON c.upid = p.upid AND c.utid = p.utid
        WHERE p.path_pct >= {PATH_PCT} AND s.short_pct >= {SHORT_PCT} AND NOT p.presents
        ORDER BY p.path_ns DESC, p.trace_id, p.utid
        """
    )
    if rows:
        yield _finding(rows[0], len(rows) - 1)
        return
    frames = scope.rows(f"SELECT count(*) AS n FROM ({path})")[0]["n"]
    yield (
        clean("No thread of short runs carries the frames.")
        if frames
        else not_applicable("No critical path of frames is known.")
    )


def _finding(row: dict[str, Any], more: int) -> Finding:
    share = 100 * row["off_ns"] / row["path_ns"]
    name = thread_name(row["thread"], row["tid"])
    detail = (
        f"{recordings(row['label'])}{name} looks like a worker ({percent(row['short_pct'])} of its "
        f"{number(row['runs'])} runs after a wakeup last under 1 ms) and is on "
        f"{percent(row['path_pct'])} "
        "of the frames' critical path"
    )
    if row["switches"]:
        detail += (
            f"; it lost its CPU {count(row['switches'], 'time')} during work that a frame waited "
            f"for, for {duration(row['off_ns'])} in total, and returned on an E core "
            f"{count(row['to_e'], 'time')}"
        )
    severity: Severity = "info"
    if row["switches"]:
        severity = "critical" if share >= CRITICAL_PCT else "warning"
    return Finding(
        kind="worker_on_path",
        severity=severity,
        title=f"Worker-like thread is on {percent(row['path_pct'])} of the frames' critical path",
        detail=f"{detail}.{and_more(more)}",
        advice=(
            "Raise this thread's priority to that of the thread that waits for it, keep other work "
            "off its core, and start fewer workers."
        ),
        trace_id=row["trace_id"],
        cost_ns=row["off_ns"],
        cost_pct=100 * row["off_ns"] / row["dur_ns"],
        utid=row["utid"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="at_least",
        evidence_sql=(
            "SELECT frame, out_ns, end_reason, from_cpu, from_type, to_cpu, to_type, off_ns "
            f"FROM path_switch(p_trace_id := {row['trace_id']}) WHERE utid = {row['utid']}"
            if row["switches"]
            else "SELECT thread, tid, frames, path_ns, path_pct "
            f"FROM path_thread(p_trace_id := {row['trace_id']}) WHERE utid = {row['utid']}"
        ),
        counter_evidence_sql=(
            "SELECT thread, tid, frames, path_ns, path_pct "
            f"FROM path_thread(p_trace_id := {row['trace_id']})"
        ),
    )
