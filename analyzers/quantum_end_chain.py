"""Whether threads took turns on one CPU at quantum ends while other CPUs were free.

The cost is the serialized time of a chain: its length while another CPU that a waiting thread may
use was idle or parked. Where an affinity, parking or an ideal processor explains it, a finding
needs 1 ms of it and is critical from 16.7 ms (a frame at 60 Hz is missed). Otherwise the balancer
was merely late, and a finding needs 1 % of the window, critical from 10 %. Where the affinity
allows no other CPU, nothing is serialized by that measure: from 1 ms with any other CPU idle it is
a warning (info, if a workload's own threads were pinned this way), at most one. Chains in which a
hand-off may be a yield say so. The three costliest are named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean
from schedlens.output.wording import and_more, count, duration, recordings

NEEDS = ("switches", "states")
METRIC: Metric = "running"
KINDS = ("serialized", "no_other_cpu_allowed")

WARNING_NS = 1_000_000
CRITICAL_NS = 16_700_000
# Of the window, where nothing bound the threads.
LATE_PCT, LATE_CRITICAL_PCT = 1.0, 10.0
NAMED = 3

_CHAINS = """
SELECT
  c.*,
  trace.label,
  w.dur_ns,
  EXISTS (
    SELECT 1
    FROM topology AS other
    WHERE other.trace_id = c.trace_id AND other.online
      AND NOT list_contains(c.allowed_cpus, other.cpu)
  ) AS is_bound,
  NOT EXISTS (
    SELECT 1 FROM (SELECT unnest(c.utids) AS utid) AS member
    WHERE member.utid NOT IN (SELECT utid FROM workload_thread)
  ) AS is_planned
FROM ({asked}) AS c
JOIN trace USING (trace_id)
JOIN analysis_span AS w USING (trace_id)
"""


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """The costliest chains, or a conclusion."""
    asked = _CHAINS.format(asked=scope.call("quantum_end_chain"))
    chains = scope.rows(f"{asked} ORDER BY serialized_ns DESC, trace_id, chain")
    costly = [
        chain
        for chain in chains
        if chain["serialized_ns"] >= WARNING_NS
        and (_explained(chain) or _of_window(chain) >= LATE_PCT)
    ]
    for place, chain in enumerate(costly[:NAMED]):
        yield _finding(chain, len(costly) - NAMED if place == NAMED - 1 else 0)
    bound = sorted(
        (
            chain
            for chain in chains
            if chain["serialized_ns"] < WARNING_NS
            and chain["idle_elsewhere_ns"] >= WARNING_NS
            and chain["affinity_known"]
            and chain["is_bound"]
        ),
        key=lambda chain: (chain["is_planned"], -chain["idle_elsewhere_ns"], chain["trace_id"]),
    )
    if bound:
        yield _no_choice(bound[0], len(bound) - 1)
    if costly or bound:
        return
    yield clean(
        f"{count(len(chains), 'chain')} of hand-offs at the end of a quantum, none with "
        f"{duration(WARNING_NS)} in which a waiting thread could have run on another CPU."
        if chains
        else "No threads took turns on a CPU at quantum ends."
    )


def _turns(chain: dict[str, Any]) -> str:
    """`2 threads (a, b) took turns on CPU 5 at quantum ends, with 6 hand-offs ...`."""
    names = chain["threads"]
    first = ", ".join(_short(name) for name in names[:3])
    yielded = " (or yields: they are not recorded)" if chain["yield_possible"] else ""
    return (
        f"{len(chain['utids'])} threads ({first}{', ...' if len(names) > 3 else ''}) took turns on "
        f"CPU {chain['cpu']} at quantum ends{yielded}, with {chain['hand_offs']} hand-offs after "
        f"slices of about {duration(chain['slice_ns'])}"
    )


def _reason(chain: dict[str, Any]) -> str:
    """Why there was no choice, in the words of a sentence."""
    allowed = chain["allowed_cpus"]
    if allowed == [chain["cpu"]]:
        return f"their affinity allows only CPU {chain['cpu']}"
    reasons = _reasons(chain)
    if reasons:
        return ", and ".join(reasons)
    if allowed:
        return f"their affinity allows only {count(len(allowed), 'CPU')}"
    return "which CPUs they may use is unknown"


def _reasons(chain: dict[str, Any]) -> list[str]:
    """What kept the scheduler from another CPU, by parking and ideal processors."""
    allowed, reasons = chain["allowed_cpus"], []
    if allowed and set(allowed) - {chain["cpu"]} <= set(chain["parked_cpus"] or []):
        reasons.append("the other CPUs their affinity allows were parked")
    if chain["ideal_outside"]:
        reasons.append("an ideal processor is outside their affinity")
    return reasons


def _no_choice(chain: dict[str, Any], more: int) -> Finding:
    ids = ", ".join(str(utid) for utid in chain["utids"])
    planned = chain["is_planned"]
    cost = chain["idle_elsewhere_ns"]
    return Finding(
        kind="no_other_cpu_allowed",
        severity="info" if planned else "warning",
        title=(
            f"Affinity made {len(chain['utids'])} threads share CPU {chain['cpu']} for "
            f"{duration(cost)}"
        ),
        detail=(
            f"{recordings(chain['label'])}{_turns(chain)}: {_reason(chain)}, while another CPU was "
            f"idle for {duration(cost)}.{and_more(more)}"
        ),
        advice=(
            "Expected: the workload was pinned this way. Compare with `--placement physical`."
            if planned
            else "Widen the affinity of these threads (taskset -p, SetThreadAffinityMask), or let "
            "the one that waits sleep (futex, WaitOnAddress) instead of spin."
        ),
        trace_id=chain["trace_id"],
        cost_ns=cost,
        cost_pct=_share(cost, chain["dur"]),
        utid=chain["utids"][0],
        cpu=chain["cpu"],
        start_ns=chain["ts"],
        end_ns=chain["ts"] + chain["dur"],
        cost_of="of the chain",
        evidence_sql=_slices(chain),
        counter_evidence_sql=(
            f"SELECT utid, source, cpus FROM affinity WHERE utid IN ({ids}) ORDER BY utid"
        ),
    )


def _finding(chain: dict[str, Any], more: int) -> Finding:
    ids = ", ".join(str(utid) for utid in chain["utids"])
    reasons = ", and ".join(_reasons(chain))
    explained = _explained(chain)
    cost = chain["serialized_ns"]
    critical = (
        chain["serialized_ns"] >= CRITICAL_NS
        if explained
        else _of_window(chain) >= LATE_CRITICAL_PCT
    )
    return Finding(
        kind="serialized",
        severity="critical" if critical else "warning",
        title=(
            f"{len(chain['utids'])} threads took turns on CPU {chain['cpu']}, losing "
            f"{duration(cost)}"
        ),
        detail=(
            f"{recordings(chain['label'])}{_turns(chain)}, {duration(cost)} of it with another "
            f"allowed CPU idle or parked{': ' if reasons else ''}{reasons}.{and_more(more)}"
        ),
        advice=(
            "Widen the affinity of these threads or set an ideal processor instead "
            "(SetThreadIdealProcessor), and let the one that waits sleep instead of spin."
            if explained
            else "Let the thread that waits sleep (futex, WaitOnAddress) instead of spin, and "
            "check cpusets and isolated CPUs, which keep the load balancer away."
        ),
        trace_id=chain["trace_id"],
        cost_ns=cost,
        cost_pct=_share(cost, chain["dur_ns"]),
        utid=chain["utids"][0],
        cpu=chain["cpu"],
        start_ns=chain["ts"],
        end_ns=chain["ts"] + chain["dur"],
        bound="exact" if chain["affinity_known"] else "at_least",
        about=tuple(chain["utids"]),
        evidence_sql=_slices(chain),
        counter_evidence_sql=(
            f"SELECT utid, source, cpus FROM affinity WHERE utid IN ({ids}) ORDER BY utid"
        ),
    )


def _slices(chain: dict[str, Any]) -> str:
    return (
        "SELECT ts, dur, utid, end_reason, ready_ns, wait_ns FROM sched_slice "
        f"WHERE trace_id = {chain['trace_id']} AND cpu = {chain['cpu']} "
        f"AND ts >= {chain['ts']} AND ts < {chain['ts'] + chain['dur']} AND NOT is_idle "
        "ORDER BY ts"
    )


def _explained(chain: dict[str, Any]) -> bool:
    """Whether something else than the load balancer kept the threads on their CPU."""
    return bool(_reasons(chain)) or bool(chain["affinity_known"] and chain["is_bound"])


def _of_window(chain: dict[str, Any]) -> float:
    return 100 * chain["serialized_ns"] / chain["dur_ns"] if chain["dur_ns"] else 0.0


def _share(ns: int, of_ns: int) -> float | None:
    return 100 * ns / of_ns if of_ns else None


def _short(name: str | None) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in name or "?")
    return shown if len(shown) <= 32 else f"{shown[:29]}..."
