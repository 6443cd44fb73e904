"""Whether the threads that carry the load ran on the fast cores.

A thread counts as carrying if it ran for at least 25 % of the window: the shorter ones lose little
on an E core. It is a warning if such a thread spent at least 20 % of its running time on E or LP-E
cores, and critical from 50 %. Only machines with more than one core type can lose by it. If
the thread's affinity has no P core at any time, that is the cause and what is to be changed; else
its QoS class, if it prefers E cores for at least 50 % of the thread's time there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.affinity_setters import set_by
from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean, not_applicable
from schedlens.machine import cpu_list
from schedlens.output.wording import duration, percent, recordings, thread_name

NEEDS = ("switches", "core_types")
METRIC: Metric = "running"
KINDS = ("on_e_cores", "not_allowed_on_p_cores", "low_qos")

CARRYING_PCT = 25.0
WARNING_PCT = 20.0
# What to do if other threads used the P cores meanwhile, and if P cores were idle.
_BUSY = (
    "Raise this thread's priority, lower or defer what uses the P cores meanwhile (EcoQoS, nice), "
    "and start no more workers than P cores."
)
_IDLE = (
    "Give this thread high QoS (SetThreadInformation) and an ideal processor on a P core "
    "(SetThreadIdealProcessor): P cores were idle meanwhile, so lowering other threads gains "
    "nothing."
)
_LOW_QOS = (
    "Give this thread high QoS (SetThreadInformation, ThreadPowerThrottling): its class makes the "
    "scheduler prefer E cores. Leave it if it is background work."
)
_MASK = (
    "Add P cores to this thread's affinity (SetThreadAffinityMask, or sched_setaffinity and cpuset "
    "on Linux), or remove it and set an ideal processor (SetThreadIdealProcessor)."
)
CRITICAL_PCT = 50.0
LOW_QOS_PCT = 50.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The carrying thread that was longest on slow cores, or a conclusion."""
    machine = scope.rows(
        "SELECT count(DISTINCT core_type) AS types, count(core_type) AS known, "
        "bool_or(core_type IN ('E', 'LP-E')) AS hybrid FROM topology"
    )[0]
    if not machine["hybrid"]:
        yield not_applicable(
            "All cores are of one type." if machine["known"] else "The core types are unknown."
        )
        return
    asked = scope.call("core_type_residency", process=scope.process)
    slow = (
        "SELECT trace_id, utid, any_value(thread) AS thread, any_value(tid) AS tid, "
        "any_value(process) AS process, sum(run_ns)::BIGINT AS run_ns, "
        # What it may have run while its state is unknown may have been on fast cores.
        "(sum(run_ns) + any_value(unknown_ns))::BIGINT AS run_high_ns, "
        "coalesce(sum(run_ns) FILTER (WHERE core_type IN ('E', 'LP-E')), 0)::BIGINT AS slow_ns "
        f"FROM ({asked}) GROUP BY trace_id, utid"
    )
    rows = scope.rows(
        f"SELECT slow.*, w.dur_ns, w.start_ns, w.end_ns, trace.label FROM ({slow}) AS slow "
        "JOIN analysis_span AS w USING (trace_id) JOIN trace USING (trace_id) "
        f"WHERE 100 * run_ns >= {CARRYING_PCT} * dur_ns "
        f"AND 100 * slow_ns >= {WARNING_PCT} * run_high_ns "
        "ORDER BY slow_ns DESC, trace_id, utid"
    )
    if not rows:
        yield clean(
            f"No thread that ran for {percent(CARRYING_PCT)} of the window spent "
            f"{percent(WARNING_PCT)} of its running time on E cores."
        )
        return
    row = rows[0]
    mask, why = _without_p(scope, row), _cause(scope, row)
    low_qos = mask is None and 100 * (why["low_qos_ns"] or 0) >= LOW_QOS_PCT * row["slow_ns"]
    share = 100 * row["slow_ns"] / row["run_high_ns"]
    others = len({r["trace_id"] for r in rows} - {row["trace_id"]})
    yield Finding(
        kind="not_allowed_on_p_cores" if mask else "low_qos" if low_qos else "on_e_cores",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=(
            f"Busy thread is not allowed on P cores ({duration(row['slow_ns'])} on E)"
            if mask
            else f"Busy thread ran {duration(row['slow_ns'])} ({percent(share)}) on E cores"
        ),
        detail=(
            f"{recordings(row['label'], others)}"
            f"{thread_name(row['thread'], row['tid'], row['process'])} ran "
            f"{duration(row['slow_ns'])} ({percent(share)} of its running time) on E cores"
            f"{_causes(why) if mask is None else f': {mask}, and no P core'}."
        ),
        advice=(
            _MASK
            if mask is not None
            else _LOW_QOS
            if low_qos
            else _BUSY
            if 2 * why["p_idle_ns"] < row["slow_ns"]
            else _IDLE
        ),
        trace_id=row["trace_id"],
        cost_ns=row["slow_ns"],
        cost_pct=100 * row["slow_ns"] / row["dur_ns"],
        utid=row["utid"],
        about=(row["utid"],),
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        bound="exact" if row["run_high_ns"] == row["run_ns"] else "at_least",
        evidence_sql=(
            "SELECT e_ns, mask_ns, p_idle_ns, no_p_idle_ns, low_qos_ns, qos_class, priority, "
            f"policy {_asked(scope, row)} WHERE utid = {row['utid']}"
        ),
        counter_evidence_sql=(
            "SELECT left_ns, away_ns, run_ns, ready_ns, censored FROM core_type_move "
            f"WHERE utid = {row['utid']} ORDER BY away_ns DESC"
        ),
    )


def _cause(scope: Scope, row: dict[str, Any]) -> dict[str, Any]:
    """The row of `e_core_cause` about the thread."""
    return scope.rows(f"SELECT * {_asked(scope, row)} WHERE utid = {row['utid']}")[0]


def _asked(scope: Scope, row: dict[str, Any]) -> str:
    return scope.call("e_core_cause", trace_id=row["trace_id"], process=scope.process)


def _causes(why: dict[str, Any]) -> str:
    """What kept it there, in words: parts of the time, then what else is recorded."""
    parts = [
        f"{words} for {duration(why[column])}"
        for column, words in (
            ("no_p_idle_ns", "no P core was idle"),
            ("p_idle_ns", "a P core was idle"),
            ("mask_ns", "its affinity allowed no P core"),
        )
        if why[column]
    ]
    facts = [
        f"QoS {why['qos_class']}" if why["qos_class"] is not None else "",
        f"priority {why['priority']}" if why["priority"] is not None else "",
        f"policy {why['policy']}" if why["policy"] is not None else "",
    ]
    known = ", ".join(fact for fact in facts if fact)
    return f": {', '.join(parts)}" + (f" ({known})" if known else "")


def _without_p(scope: Scope, row: dict[str, Any]) -> str | None:
    """Which CPUs the thread may use, and who set that; None unless it may use no P core."""
    fast = {
        found["cpu"]
        for found in scope.rows(
            "SELECT cpu FROM topology WHERE core_type NOT IN ('E', 'LP-E') "
            f"AND trace_id = {row['trace_id']}"
        )
    }
    masks = scope.rows(
        f"SELECT cpus, is_known FROM affinity_spell WHERE utid = {row['utid']} "
        f"AND from_ns < {row['end_ns']} AND to_ns > {row['start_ns']} ORDER BY from_ns"
    )
    if not fast or not masks:
        return None
    if not all(mask["is_known"] and fast.isdisjoint(mask["cpus"]) for mask in masks):
        return None
    cpus = cpu_list.text({cpu for mask in masks for cpu in mask["cpus"]})
    return f"its affinity ({set_by(scope, row)}) allows only CPUs {cpus}"
