"""What placing request loops by CPU number costs against placing them by topology.

A warning where the p99 by number is at least 10 % above that by topology and shards share a core
there. Where both ways choose the same CPUs that is told. The share of late starts and the busy
share agree where the load is what it claims to be: told from 5 points apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, duration, percent, times

NEEDS = ("shards",)
METRIC: Metric = "measured"

_WORSE = 1.10
_APART_POINTS = 5.0
_EVIDENCE = "FROM shard_latency"


def judge(scope: Scope) -> Iterable[Finding]:
    """What the shards show, or that there are none."""
    rows = scope.rows("SELECT * FROM shard_latency WHERE worker IS NULL")
    if not rows:
        yield _found("checked", "No cells of the experiment shards: nothing to judge")
        return
    by_place = {row["place"]: row for row in rows}
    topology, number = by_place.get("by_topology"), by_place.get("by_number")
    if topology is not None and number is not None:
        yield _compared(topology, number)
    elif topology is not None:
        yield _found(
            "info",
            f"By number and by topology {count(topology['shards'], 'shard')} get the same CPUs "
            f"here: p99 {_p99(topology)}",
        )
    for row in rows:
        if row["late_pct"] is None or row["busy_pct"] is None:
            continue
        if abs(row["late_pct"] - row["busy_pct"]) >= _APART_POINTS:
            yield _found(
                "info",
                f"{row['cell']}: {percent(row['late_pct'])} of the requests found their shard "
                f"busy, which was busy {percent(row['busy_pct'])} of the time: the machine held "
                "the shards up beside their work",
                "Measure again on a quiet machine: the latencies hold what others did to it.",
            )


def _compared(topology: dict[str, Any], number: dict[str, Any]) -> Finding:
    first, second = topology["p99_ns"], number["p99_ns"]
    if first is None or second is None:
        return _found("info", "Too few requests for a p99 of the shards: use a larger --seconds")
    shared = (number["most_on_core"] or 1) > 1
    title = (
        f"{count(number['shards'], 'shard')} placed by CPU number are on "
        f"{count(number['cores'], 'core')}, p99 {_p99(number)}; by topology on "
        f"{count(topology['cores'], 'core')}, p99 {_p99(topology)}"
    )
    if shared and second >= _WORSE * first:
        return _found(
            "warning",
            title,
            "Ask the system which logical CPUs share a core (thread_siblings_list), and pin one "
            "shard a core.",
        )
    return _found("info", title)


def _found(severity: Any, title: str, advice: str = "") -> Finding:
    return Finding("shard_latency", severity, title, _EVIDENCE, advice)


def _p99(row: dict[str, Any]) -> str:
    if row["p99_ns"] is None:
        return "unknown"
    return duration(row["p99_ns"]) + times(row["p99_low_ns"], row["p99_high_ns"])
