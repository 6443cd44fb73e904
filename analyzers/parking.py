"""Whether frames took longer while many logical CPUs were parked.

For each process that presents, the number of parked CPUs that separates its frames best is
computed: at least 5 frames with that many or more parked, at least 5 with fewer. It is a warning if
the frames with more parked CPUs last at least 25 % longer on average and 1 ms longer, critical if
their extra time is 10 % of the window. Parked CPUs alone are not a problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Scope, clean
from schedlens.output.wording import count, duration, percent, recordings

NEEDS = ("parking",)
METRIC: Metric = "frames"
KINDS = ("longer_frames",)

LEAST_FRAMES = 5
LONGER_PCT = 25.0
LONGER_NS = 1_000_000
CRITICAL_PCT = 10.0


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """A finding for each process whose frames depend on parking, or a conclusion."""
    asked = scope.call("frame_parking", process=scope.process)
    rows = scope.rows(
        f"SELECT f.*, trace.label, w.start_ns, w.end_ns, w.dur_ns FROM ({asked}) AS f "
        "JOIN trace USING (trace_id) JOIN analysis_span AS w USING (trace_id) "
        "ORDER BY f.trace_id, f.upid, f.process, f.parked"
    )
    processes: dict[tuple[Any, Any, Any], list[dict[str, Any]]] = {}
    for row in rows:
        processes.setdefault((row["trace_id"], row["upid"], row["process"]), []).append(row)
    found = [finding for group in processes.values() for finding in _parted(group)]
    yield from found
    if not found:
        yield _no_finding(scope, bool(rows))


def _parted(rows: list[dict[str, Any]]) -> Iterable[Finding]:
    """The number of parked CPUs from which on the frames cost most, if they do."""
    best: tuple[int, int, float, float] | None = None
    for place in range(1, len(rows)):
        few, many = rows[:place], rows[place:]
        if min(_sum(few, "frames"), _sum(many, "frames")) < LEAST_FRAMES:
            continue
        low, high = _mean(few), _mean(many)
        cost = round(_sum(many, "total_ns") - low * _sum(many, "frames"))
        if 100 * high < (100 + LONGER_PCT) * low or high - low < LONGER_NS:
            continue
        if best is None or cost > best[1]:
            best = (place, cost, low, high)
    if best is None:
        return
    place, cost, low, high = best
    row = rows[place]
    share = 100 * cost / row["dur_ns"]
    where = f"p_trace_id := {row['trace_id']}"
    frames = _sum(rows[place:], "frames")
    yield Finding(
        kind="longer_frames",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=f"Frames took {duration(cost)} longer while {row['parked']}+ CPUs were parked",
        detail=(
            f"{recordings(row['label'])}frames of {row['process']} last {duration(high)} on "
            f"average while {row['parked']} or more logical CPUs are parked, and {duration(low)} "
            f"with fewer; {count(frames, 'frame')} took {duration(cost)} longer in total."
        ),
        advice=(
            "Raise the power plan's minimum of unparked cores (powercfg CPMINCORES) and its "
            "concurrency headroom, and replace hard affinities by ideal processors "
            "(SetThreadIdealProcessor)."
        ),
        trace_id=row["trace_id"],
        cost_ns=cost,
        cost_pct=share,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        evidence_sql=(
            "SELECT process, parked, frames, mean_ns, p50_ns, longest_ns, stutters "
            f"FROM frame_parking({where})"
        ),
        counter_evidence_sql=(
            "SELECT thread, tid, parked, slices, run_ns, longest_ns, ready_ns, ready_max_ns "
            f"FROM thread_parking({where}) ORDER BY ready_ns DESC NULLS LAST, utid, parked"
        ),
    )


def _no_finding(scope: Scope, has_frames: bool) -> Outcome:
    counted = scope.rows(
        "SELECT count(*) FILTER (WHERE parked_ns + soft_parked_ns > 0) AS parked, "
        "count(*) FILTER (WHERE unknown_ns = 0) AS known, count(*) AS cpus, "
        "max(parked_pct) AS most FROM parking"
    )[0]
    if not counted["known"]:
        return Outcome("not_recorded", "The recordings contain no parking events.")
    if not counted["parked"]:
        return clean("No CPU was parked.")
    return clean(
        f"{count(counted['parked'], 'CPU')} of {counted['cpus']} parked at times, up to "
        f"{percent(counted['most'])} of the window"
        + (", without longer frames." if has_frames else ".")
    )


def _sum(rows: list[dict[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows)


def _mean(rows: list[dict[str, Any]]) -> float:
    return _sum(rows, "total_ns") / _sum(rows, "frames")
