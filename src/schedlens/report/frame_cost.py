"""What a finding cost a frame, where the recording has frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedlens.output import wording


class _Asks(Protocol):
    @property
    def process(self) -> str | None: ...
    def call(self, query: str, **arguments: object) -> str: ...


def question(scope: _Asks, trace_id: int) -> str:
    """The SQL for the processes with frames of a recording."""
    return scope.call("frame_summary", trace_id=trace_id, process=scope.process)


def most(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The process with most frames; None without frames."""
    return min(
        rows, key=lambda one: (-one["frames"], one["upid"] is None, one["upid"]), default=None
    )


def lost(found: Mapping[str, Any], frames: int | None) -> str | None:
    """`Lost: at least 3.2 ms a frame`; None without a cost or frames."""
    if not frames or not found["cost_ns"]:
        return None
    low, high = (
        None if found[end] is None else round(found[end] / frames)
        for end in ("cost_low_ns", "cost_high_ns")
    )
    words = wording.cost(round(found["cost_ns"] / frames), found["bound"], low, high)
    return wording.unbroken(f"Lost: {words} a frame, on average over {frames:,} frames.")
