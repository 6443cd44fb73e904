"""Who caused the incident for which a ring saved its events: `collect --ring`.

A thread that was ready was kept from its CPU by the thread that ran longest there meanwhile. A
thread that waited within a slow frame is explained by the thread that woke it. A process that used
too much CPU time is explained by its busiest thread. Where stacks or samples are recorded, the
finding names the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Rank, Scope, not_applicable
from schedlens.output.wording import duration, thread_name

NEEDS = ("switches",)
METRIC: Metric = "ready"
KINDS = ("incident",)

_WHAT = {
    "command": "when the command reported it",
    "signal": "before SIGUSR1",
    "enter": "before Enter",
    "interrupt": "before the recording was stopped",
}


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The cause of each incident, first of all findings."""
    rows = scope.rows(scope.call("incident"))
    for row in rows:
        yield _finding(row)
    if not rows:
        yield not_applicable("no recording was saved by a ring (collect --ring)")


def _finding(row: dict[str, Any]) -> Finding:
    by = thread_name(row["by_thread"], row["by_tid"], row["by_process"]) if row["by_utid"] else None
    title, detail = _said(row, by)
    waited = row["dur_ns"]
    return Finding(
        kind="incident",
        severity="warning",
        rank=Rank.ANSWER,
        title=title,
        detail=detail,
        advice=_advice(row),
        cost_ns=waited,
        bound=None if waited is None else "at_least",
        evidence_sql=f"FROM incident(p_trace_id := {row['trace_id']})",
        counter_evidence_sql=(
            "SELECT ts, dur, cpu, state, utid FROM cpu_state "
            f"WHERE trace_id = {row['trace_id']} AND ts < {row['to_ns']} "
            f"AND ts + dur > {row['from_ns']} ORDER BY cpu, ts LIMIT 200"
        ),
        trace_id=row["trace_id"],
        utid=row["utid"] or row["by_utid"],
        cpu=row["cpu"],
        about=() if row["utid"] is None else (row["utid"],),
        start_ns=row["from_ns"] if row["start_ns"] is None else row["start_ns"],
        end_ns=row["to_ns"] if row["start_ns"] is None else row["start_ns"] + row["dur_ns"],
    )


def _said(row: dict[str, Any], by: str | None) -> tuple[str, str]:
    """The title and the sentence: who did it, in which code, to whom."""
    code = f" in `{row['by_frame']}`" if row["by_frame"] else ""
    name = row["by_thread"] or "An unknown thread"
    if row["kind"] == "cpu":
        share = f"{row['measured']:.0f} % of a CPU" if row["measured"] is not None else "the CPU"
        if by is None:
            return f"A process used {share}", "No slice of its threads is in the recording."
        return (
            f"{name} used most of {share}",
            f"{by} ran for {duration(row['by_run_ns'])}{code} while its process used {share}.",
        )
    if row["utid"] is None:
        return (
            "The cause of the incident is not in the recording",
            "No thread was ready or waiting for a CPU when it happened.",
        )
    victim = thread_name(row["thread"], row["tid"], row["process"])
    frame = f"In a frame of {row['measured']:.1f} ms, " if row["kind"] == "frame" else ""
    when = f" {_WHAT[row['kind']]}" if row["kind"] in _WHAT else ""
    length = duration(row["dur_ns"])
    if row["state"] == "waiting":
        if by is None or row["by_interrupt"]:
            waker = "an interrupt" if row["by_interrupt"] else "an unknown thread"
            return (
                f"{row['thread']} waited {length} for {waker}",
                f"{frame}{victim} waited for {length}; {waker} ended the wait.",
            )
        return (
            f"{name} made {row['thread']} wait for {length}{code}",
            f"{frame}{by} woke {victim}{code}, after it had waited for {length}.",
        )
    on = "" if row["cpu"] is None else f" on CPU {row['cpu']}"
    if by is None:
        if row["cpu"] is None:
            unknown = "the CPU that it waited for is not recorded"
            return (
                f"{row['thread']} was ready for {length}; {unknown}",
                f"{frame}{victim} was ready for {length}{when}; {unknown}.",
            )
        return (
            f"{row['thread']} was ready for {length}; no other thread is recorded on its CPU",
            f"{frame}{victim} was ready for {length}{when}; no other thread is recorded{on}.",
        )
    return (
        f"{name} kept {row['thread']} from its CPU for {length}{code}",
        f"{frame}{by} ran for {duration(row['by_run_ns'])}{on}{code} while {victim} was ready for "
        f"{length}{when}.",
    )


def _advice(row: dict[str, Any]) -> str:
    where = f"`{row['by_frame']}`" if row["by_frame"] else "its code"
    if row["by_frame"] is None:
        return "Record with `collect --ring SECONDS --stacks`, so that the code is named."
    if row["state"] == "ready":
        return (
            f"Split the work in {where} into shorter parts, lower the priority of that thread, or "
            "pin it to another CPU."
        )
    return f"Shorten the work in {where}."
