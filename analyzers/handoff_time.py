"""What handing an item on costs by place and way to wait, and whether frames suffer from it.

A warning where the loop that needs as many hand-offs as 35 ms are slices comes below 50 of its 60
frames a second with one way to wait, while another way in the same place reaches 55. The one-way
times are told. Cells of which others disturbed every repeat are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlens.ask.findings import Finding, Metric, Scope
from schedlens.output.wording import count, duration, interval, times

NEEDS = ("handoff",)
METRIC: Metric = "measured"

Row = dict[str, Any]

_SLOW_FPS = 50.0
_FINE_FPS = 55.0
_EVIDENCE = "FROM handoff_time"


def judge(scope: Scope) -> Iterable[Finding]:
    """What the hand-offs show, or that there are none."""
    rows = scope.rows("SELECT * FROM handoff_time WHERE one_way_ns IS NOT NULL")
    if not rows:
        yield Finding(
            "handoff_time", "checked", "No cells of the experiment handoff: nothing to judge",
            _EVIDENCE,
        )  # fmt: skip
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
    yield Finding("handoff_time", "info", _told(rows), _EVIDENCE)


def _slow(row: Row, better: list[str]) -> Finding:
    where = "one CPU" if row["place"] == "same_cpu" else f"two CPUs ({row['place']})"
    ends = interval(row["frames_per_s_low"], row["frames_per_s_high"])
    return Finding(
        "handoff_time",
        "warning",
        f"A 60 Hz loop with {count(row['handoffs'], 'hand-off')} a frame reaches "
        f"{row['frames_per_s']:.1f} frames a second{ends} where both parties {row['how']} on "
        f"{where}: each hand-off takes {duration(row['one_way_ns'])}",
        _EVIDENCE,
        f"Let the waiting party {' or '.join(better)}, or give the two a CPU each.",
    )


def _told(rows: list[Row]) -> str:
    parts = [
        f"{row['place']} {row['how']} {duration(row['one_way_ns'])}"
        f"{times(row['one_way_low_ns'], row['one_way_high_ns'])}"
        for row in rows
    ]
    return f"One-way time of a hand-off: {', '.join(parts)}"
