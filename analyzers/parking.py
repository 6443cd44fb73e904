"""Whether frames took longer while many logical CPUs were parked.

For each process that presents, the number of parked CPUs that parts its frames best is sought:
from it on at least 5 frames, below it at least 5. It is a warning if the frames from there on last
at least 25 % longer on average and 1 ms longer, critical if what they last longer is 10 % of the
window. Parked CPUs alone are no fault: without frames they are only told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, duration, percent

NEEDS = ("parking",)
METRIC: Metric = "frames"

LEAST_FRAMES = 5
LONGER_PCT = 25.0
LONGER_NS = 1_000_000
CRITICAL_PCT = 10.0


def judge(scope: Scope) -> Iterable[Finding]:
    """A finding for each process whose frames depend on parking, or what was checked."""
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
        yield _checked(scope, bool(rows))


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
        analyzer="parking",
        severity="critical" if share >= CRITICAL_PCT else "warning",
        title=(
            f"Frames of {row['process']} last {duration(high)} on average while "
            f"{row['parked']} or more logical CPUs are parked, {duration(low)} with fewer: "
            f"{duration(cost)} in {count(frames, 'frame')} ({row['label']})"
        ),
        trace_id=row["trace_id"],
        cost_ns=cost,
        cost_pct=share,
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        advice=(
            "See which threads cannot leave the CPUs that stay open (hard affinity: use an ideal "
            "processor instead), then raise the parking floor: minimum cores, concurrency headroom."
        ),
        evidence_sql=(
            "SELECT process, parked, frames, mean_ns, p50_ns, longest_ns, stutters "
            f"FROM frame_parking({where})"
        ),
        counter_evidence_sql=(
            "SELECT thread, tid, parked, stays, run_ns, longest_ns, ready_ns, ready_max_ns "
            f"FROM thread_parking({where}) ORDER BY ready_ns DESC NULLS LAST, utid, parked"
        ),
    )


def _checked(scope: Scope, has_frames: bool) -> Finding:
    told = scope.rows(
        "SELECT count(*) FILTER (WHERE parked_ns + soft_parked_ns > 0) AS parked, "
        "count(*) FILTER (WHERE unknown_ns = 0) AS known, count(*) AS cpus, "
        "max(parked_pct) AS most FROM parking"
    )[0]
    if not told["known"]:
        title = "Parking is not recorded: nothing can be said of it"
    elif not told["parked"]:
        title = "No CPU was parked"
    else:
        title = (
            f"{count(told['parked'], 'CPU')} of {told['cpus']} parked at times, up to "
            f"{percent(told['most'])} of the window"
            + ("; frames are no longer for it" if has_frames else "")
        )
    return Finding(analyzer="parking", severity="checked", title=title, evidence_sql="FROM parking")


def _sum(rows: list[dict[str, Any]], column: str) -> int:
    return sum(row[column] for row in rows)


def _mean(rows: list[dict[str, Any]]) -> float:
    return _sum(rows, "total_ns") / _sum(rows, "frames")
