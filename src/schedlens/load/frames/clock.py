"""Joins the clock of a frame capture to that of a trace.

Raw QPC joins exactly. A capture with its own times is matched by the rhythm of its presents:
least squares over the matched presents give offset and drift, and the residual is the value
that 95 % of them do not exceed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from schedlens.errors import UnsupportedTraceError

# Number of presents whose rhythm is compared to find the offset, and how many must then match.
_PROBE = 64
_LEAST = 8
_NS = 1_000_000_000


@dataclass(frozen=True)
class Joined:
    """Trace ns = `offset_ns` + (1 + `drift`) x capture ns; `residual_ns` is its uncertainty."""

    offset_ns: float
    drift: float
    residual_ns: int
    matched: int

    def ns(self, capture_ns: float) -> int:
        """Converts a time of the capture to ns of the trace."""
        return round(self.offset_ns + capture_ns + self.drift * capture_ns)


def qpc_ns(ticks: float, start_clock: int, clock_hz: int) -> int:
    """Converts raw ticks to ns of the trace, in integers."""
    return (int(ticks) - start_clock) * _NS // clock_hz


def from_qpc_ns(start_clock: int, clock_hz: int, resolution_ns: int) -> Joined:
    """For times that are QPC ticks converted to ns, rounded to `resolution_ns`."""
    return Joined(-start_clock * _NS / clock_hz, 0.0, resolution_ns, 0)


def solve(capture_ns: Sequence[float], trace_ns: Sequence[int]) -> Joined:
    """Matches the presents of one process in both, each in time order.

    Raises `UnsupportedTraceError` if there are too few, or if the result is uncertain by more than
    half a frame.
    """
    if min(len(capture_ns), len(trace_ns)) < _LEAST:
        raise UnsupportedTraceError(
            f"{len(capture_ns)} frames in the capture and {len(trace_ns)} presents in the trace "
            f"are too few to join their clocks ({_LEAST} of each are required): run "
            "PresentMon with --qpc_time"
        )
    usual = median(b - a for a, b in pairwise(trace_ns))
    best = min(
        (_candidate(capture_ns, trace_ns, probe) for probe in _probes(len(capture_ns))),
        key=lambda found: (found.residual_ns, -found.matched),
    )
    enough = max(_LEAST, min(len(capture_ns), len(trace_ns)) // 2)
    if best.residual_ns > usual / 2 or best.matched < enough:
        raise UnsupportedTraceError(
            f"cannot join the capture's clock to the trace's: {best.matched} presents match "
            f"within {best.residual_ns / 1e6:.3f} ms, which is more than half a frame "
            f"({usual / 2e6:.3f} ms): run PresentMon with --qpc_time"
        )
    return best


def _probes(count: int) -> list[int]:
    """Where in the capture probes start: its start, middle and end may be outside the trace."""
    last = max(0, count - _PROBE)
    return sorted({0, last // 2, last})


def _candidate(capture: Sequence[float], trace: Sequence[int], first: int) -> Joined:
    probe = [
        b - a
        for a, b in zip(
            capture[first : first + _PROBE], capture[first + 1 : first + _PROBE + 1], strict=False
        )
    ]
    gaps = [b - a for a, b in pairwise(trace)]
    best, lag = float("inf"), 0
    for at in range(max(1, len(gaps) - len(probe) + 1)):
        doubt = 0.0
        for own, other in zip(probe, gaps[at : at + len(probe)], strict=False):
            doubt += abs(own - other)
            if doubt >= best:
                break
        else:
            best, lag = doubt, at
    found = Joined(trace[lag] - capture[first], 0.0, 0, 0)
    # The drift is visible only over more presents than the probe's, so refine the result.
    for _ in range(3):
        found = _fit(capture, trace, found)
    return found


def _fit(capture: Sequence[float], trace: Sequence[int], before: Joined) -> Joined:
    """Least squares over the presents that are within a third of a frame of each other."""
    reach = median(b - a for a, b in pairwise(trace)) / 3
    pairs: list[tuple[float, int]] = []
    for time in capture:
        expected = before.ns(time)
        at = bisect_left(trace, expected)
        near = min(trace[max(0, at - 1) : at + 1], key=lambda other: abs(other - expected))
        if abs(near - expected) <= reach:
            pairs.append((time, near))
    if len(pairs) < 2:
        return Joined(before.offset_ns, before.drift, int(reach * 3), len(pairs))
    middle = sum(own for own, _ in pairs) / len(pairs)
    offset = sum(other - own for own, other in pairs) / len(pairs)
    spread = sum((own - middle) ** 2 for own, _ in pairs)
    drift = sum((own - middle) * (other - own - offset) for own, other in pairs) / (spread or 1.0)
    found = Joined(offset - drift * middle, drift, 0, len(pairs))
    doubts = sorted(abs(other - found.ns(own)) for own, other in pairs)
    return Joined(found.offset_ns, drift, doubts[int(0.95 * (len(doubts) - 1))], len(pairs))
