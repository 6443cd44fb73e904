"""Whether a pool of workers has as many threads as the machine has logical CPUs, and gains by it.

A pool is at least 3 threads of a process whose names differ in digits only. One that has as many
threads as logical CPUs (or at most two fewer, or more) on a machine with SMT siblings or E cores is
info; it is a warning if its workers were ready for at least 10 % of their runnable time, or if
another recording shows the same pool with fewer threads and sections that last at most 1 % longer
on average: the additional workers then do not help.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.output.wording import count, duration, percent, recordings

NEEDS = ("switches", "cores")
METRIC: Metric = "ready"
KINDS = ("wide_pool",)

READY_PCT = 10.0
LONGER_PCT = 1.0
NAMED = 3
_FOLLOWS = ("logical CPUs", "more than logical CPUs")


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The pools that follow the number of logical CPUs, the busiest first, or a conclusion."""
    asked = scope.call("worker_pool", process=scope.process)
    pools = scope.rows(
        f"SELECT p.*, trace.label, w.start_ns, w.end_ns, w.dur_ns FROM ({asked}) AS p "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "ORDER BY p.run_ns DESC, p.trace_id, p.upid, p.pool"
    )
    wide = [
        pool for pool in pools if pool["follows"] in _FOLLOWS and 0 < _whole(pool) < pool["cpus"]
    ]
    for pool in wide[:NAMED]:
        yield _finding(pool, _smaller(pool, pools))
    if not wide:
        yield _no_finding(pools)


def _whole(pool: dict[str, Any]) -> int:
    """Cores on which a thread runs fast and alone; 0 if unknown."""
    return int(pool["p_cores"] or pool["cores"])


def _no_finding(pools: list[dict[str, Any]]) -> Outcome:
    if not pools:
        return not_applicable(
            "No pool of workers: no process has three threads whose names differ in digits only."
        )
    found = f"{count(len(pools), 'pool')} of workers"
    if not any(_whole(pool) for pool in pools):
        return not_applicable(f"{found}, but which logical CPUs share a core is unknown.")
    return clean(
        f"{found}, none with as many workers as logical CPUs on a machine with SMT siblings or "
        "E cores."
    )


def _smaller(pool: dict[str, Any], pools: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The smallest pool of the same name elsewhere that is no slower."""
    alike = [
        other
        for other in pools
        if (other["process"], other["pool"]) == (pool["process"], pool["pool"])
        and other["trace_id"] != pool["trace_id"]
        and other["threads"] < pool["threads"]
        and _section(other) is not None
        and _section(pool) is not None
        and 100 * _section(other) <= (100 + LONGER_PCT) * _section(pool)
    ]
    return min(alike, key=lambda other: (other["threads"], other["trace_id"]), default=None)


def _section(pool: dict[str, Any]) -> Any:
    """Of sections that use all workers: those of a few are short in a pool of any size."""
    return pool["full_section_mean_ns"]


def _evidence(pool: dict[str, Any]) -> str:
    """Its sections; where none begins in the window, as one fills the whole of it, the pool."""
    if pool["section_mean_ns"] is None:
        asked = f"SELECT * FROM worker_pool(p_trace_id := {pool['trace_id']})"
        return f"{asked} WHERE upid = {pool['upid']} ORDER BY pool"
    asked = f"SELECT * FROM section_scaling(p_trace_id := {pool['trace_id']})"
    return f"{asked} WHERE upid = {pool['upid']} ORDER BY pool, workers"


def _finding(pool: dict[str, Any], smaller: dict[str, Any] | None) -> Finding:
    ready = pool["ready_ns"] or 0
    ready_pct = 100 * ready / (ready + pool["run_ns"])
    shared = 100 * pool["shared_ns"] / pool["run_ns"]
    detail = (
        f"{recordings(pool['label'])}{count(pool['threads'], 'thread')} {pool['pool']} of "
        f"{pool['process']} ran {percent(shared)} of their time with the SMT sibling busy and were "
        f"ready for {percent(ready_pct)} of their runnable time"
    )
    if smaller is not None:
        detail += (
            f"; with {smaller['threads']} threads ({smaller['label']}) their sections with all "
            f"workers take {duration(_section(smaller))} instead of {duration(_section(pool))}"
        )
    harmful = smaller is not None or ready_pct >= READY_PCT
    return Finding(
        kind="wide_pool",
        severity="warning" if harmful else "info",
        title=(
            f"Pool has {pool['threads']} workers on {pool['cpus']} logical CPUs "
            f"({pool['cores']} cores)"
        ),
        detail=f"{detail}.",
        advice=(
            "Do not size the pool by the number of logical CPUs: try one worker for each P core, "
            "then more, keep what shortens the sections, and leave CPUs for other threads."
        ),
        trace_id=pool["trace_id"],
        cost_ns=ready or None,
        cost_pct=100 * ready / pool["dur_ns"] if ready else None,
        start_ns=pool["start_ns"],
        end_ns=pool["end_ns"],
        bound="at_least",
        evidence_sql=_evidence(pool),
        counter_evidence_sql=(
            "SELECT thread, tid, core_type, shared_ns, tax_ns, tax_low_ns, tax_high_ns, refused "
            f"FROM smt_tax(p_trace_id := {pool['trace_id']})"
        ),
    )
