"""What a hand-off costs by place and way to wait, and whether frames suffer from it.

A warning where the loop that needs as many hand-offs as 35 ms are slices comes below 50 of its 60
frames a second with one way to wait, while another way in the same place reaches 55. The one-way
times are info. Cells whose repeats were all disturbed are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Outcome, Rank, Scope, not_applicable
from schedlens.output.wording import between, count, duration, interval, place, times

NEEDS = ("handoff",)
METRIC: Metric = "measured"
KINDS = ("slow_loop", "one_way_time")

Row = dict[str, Any]

_SLOW_FPS = 50.0
_FINE_FPS = 55.0
_EVIDENCE = "FROM handoff_time"


def judge(scope: Scope) -> Iterable[Finding | Outcome]:
    """What the hand-offs show, or that there are none."""
    rows = scope.rows("SELECT * FROM handoff_time WHERE one_way_ns IS NOT NULL")
    if not rows:
        yield not_applicable("The experiment handoff was not run.")
        return
    quiet = [row for row in rows if not row["is_disturbed"]]
    slow = [row for row in quiet if (row["frames_per_s"] or 60.0) < _SLOW_FPS]
    for row in slow:
        better = [
            other["how"]
            for other in quiet
            if other["place"] == row["place"] and (other["frames_per_s"] or 0.0) >= _FINE_FPS
        ]
        if better:
            yield _slow(row, better)
    yield _one_way(rows)


def _slow(row: Row, better: list[str]) -> Finding:
    where = place(row["place"])
    ends = interval(row["frames_per_s_low"], row["frames_per_s_high"])
    return Finding(
        kind="slow_loop",
        severity="warning",
        title=f"60 Hz loop reaches only {row['frames_per_s']:.3g} frames a second",
        detail=(
            f"A 60 Hz loop with {count(row['handoffs'], 'hand-off')} a frame reaches "
            f"{row['frames_per_s']:.3g} frames a second{ends} where both threads {row['how']} on "
            f"{where}: each hand-off takes {duration(row['one_way_ns'])}."
        ),
        advice=f"Let the waiting thread {' or '.join(better)}, or give each thread its own CPU.",
        evidence_sql=_EVIDENCE,
        rank=Rank.ANSWER,
    )


def _one_way(rows: list[Row]) -> Finding:
    parts = [
        f"{row['how']} on {place(row['place'])} {duration(row['one_way_ns'])}"
        f"{times(row['one_way_low_ns'], row['one_way_high_ns'])}"
        for row in rows
    ]
    low, high = (duration(end(row["one_way_ns"] for row in rows)) for end in (min, max))
    return Finding(
        kind="one_way_time",
        severity="info",
        title=f"A hand-off takes {between(low, high)}",
        detail=f"One-way time of a hand-off by place and way to wait: {', '.join(parts)}.",
        advice="Choose the way to wait by its one-way time and CPU use (`FROM handoff_time`).",
        evidence_sql=_EVIDENCE,
        rank=Rank.ANSWER,
    )
