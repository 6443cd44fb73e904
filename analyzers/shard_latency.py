"""What placing request loops by CPU number costs against placing them by topology.

A warning where the p99 by number, or in the pairs (n, n + cores), is at least 10 % above that by
topology and shards share a core there; info where number and topology choose the same CPUs. The
share of late starts and the busy share agree where the load is what it claims to be: info from 5
points apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import (
    Finding,
    Metric,
    Outcome,
    Rank,
    Scope,
    Severity,
    not_applicable,
)
from schedlens.output.wording import count, duration, interval, percent, times

NEEDS = ("shards",)
METRIC: Metric = "measured"
KINDS = ("placement", "same_cpus", "sibling_busy", "late_starts", "too_few_requests")

_WORSE = 1.10
_APART_POINTS = 5.0
_EVIDENCE = "FROM shard_latency"


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """What the shards show, or that there are none."""
    rows = scope.rows("SELECT * FROM shard_latency WHERE worker IS NULL")
    if not rows:
        yield not_applicable("The experiment shards was not run.")
        return
    by_place = {row["place"]: row for row in rows}
    topology, number = by_place.get("by_topology"), by_place.get("by_number")
    if topology is not None and number is not None:
        yield _compared(topology, number, "by CPU number")
    elif topology is not None:
        yield _found(
            "same_cpus",
            "info",
            "Placement by number and by topology uses the same CPUs",
            f"{count(topology['shards'], 'shard')} get the same CPUs either way: p99 "
            f"{_p99(topology)}.",
            "Keep either placement: they do not differ on this machine.",
        )
    offset = by_place.get("by_offset")
    if topology is not None and offset is not None:
        yield _compared(topology, offset, "in pairs (n, n + cores)")
    yield from _with_busy_sibling(by_place)
    for row in rows:
        if row["late_pct"] is None or row["busy_pct"] is None:
            continue
        if abs(row["late_pct"] - row["busy_pct"]) >= _APART_POINTS:
            yield _found(
                "late_starts",
                "info",
                f"{percent(row['late_pct'])} of requests started late at "
                f"{percent(row['busy_pct'])} load",
                f"In {row['cell']}, {percent(row['late_pct'])} of the requests found their shard "
                f"busy, although it was busy {percent(row['busy_pct'])} of the time: something "
                "else delayed the shards.",
                "Measure again on a quiet machine: these latencies include that delay.",
            )


def _compared(topology: dict[str, Any], other: dict[str, Any], how: str) -> Finding:
    """Placement by topology against another, whose way of choosing CPUs `how` says."""
    first, second = topology["p99_ns"], other["p99_ns"]
    if first is None or second is None:
        return _found(
            "too_few_requests",
            "info",
            "Too few requests for a p99",
            "The cells contain too few requests to compute the p99 of the shards.",
            "Repeat the experiment with a larger `--seconds`.",
        )
    shared = (other["most_on_core"] or 1) > 1
    worse = shared and second >= _WORSE * first
    return _found(
        "placement",
        "warning" if worse else "info",
        f"p99 is {duration(second)} {how}, {duration(first)} by topology",
        f"{count(other['shards'], 'shard')} placed {how} use "
        f"{count(other['cores'], 'core')}, p99 {_p99(other)}; by topology they use "
        f"{count(topology['cores'], 'core')}, p99 {_p99(topology)}.",
        "Pin one shard to each core: thread_siblings_list shows which logical CPUs share a core."
        if worse
        else "Keep either placement: the p99 differs by less than "
        f"{percent(100 * (_WORSE - 1))}, or no shards share a core.",
    )


def _with_busy_sibling(by_place: dict[str, dict[str, Any]]) -> Iterable[Finding]:
    """What a busy sibling costs a shard, and what one at 5 % does."""
    idle, busy = by_place.get("sibling_idle"), by_place.get("sibling_busy")
    if idle is None or busy is None or busy["p99_ratio"] is None:
        return
    worse = busy["p99_ratio_low"] > 1
    housekeeping = by_place.get("sibling_at_5_pct")
    more = ""
    if housekeeping is not None and housekeeping["p99_ratio"] is not None:
        more = (
            f" A sibling that is 5 % busy makes it {housekeeping['p99_ratio']:.3g} times as long"
            f"{interval(housekeeping['p99_ratio_low'], housekeeping['p99_ratio_high'])}."
        )
    yield _found(
        "sibling_busy",
        "info",
        f"A busy SMT sibling makes the p99 {busy['p99_ratio']:.3g} times as long",
        f"The p99 of a shard is {_p99(idle)} with its SMT sibling idle and {_p99(busy)} with "
        f"sha256 on it: {busy['p99_ratio']:.3g} times as long"
        f"{interval(busy['p99_ratio_low'], busy['p99_ratio_high'])}.{more}",
        "Leave the SMT sibling of a latency-critical shard idle (cpuset.cpus), and give "
        "housekeeping a budget (cpu.max)."
        if worse
        else "Measure again with more repeats: the interval contains 1.",
    )


def _found(kind: str, severity: Severity, title: str, detail: str, advice: str) -> Finding:
    return Finding(kind, severity, title, detail, advice, _EVIDENCE, rank=Rank.ANSWER)


def _p99(row: dict[str, Any]) -> str:
    if row["p99_ns"] is None:
        return "unknown"
    return duration(row["p99_ns"]) + times(row["p99_low_ns"], row["p99_high_ns"])
