"""The series that a comparison draws over time: which ones, and the mean of each side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlens.differences import mechanisms, resampling
from schedlens.differences.quantities import BLOCKS

if TYPE_CHECKING:
    from schedlens.differences.contrast import Compared, Comparison
    from schedlens.differences.series import Series

_MOST_ROWS = 8


def chosen(found: Comparison) -> list[Compared]:
    """Symptoms that differ and what moved with them, then other differences, then symptoms."""
    moved = {(one.quantity, one.subject, one.step) for one in found.mechanisms}
    usable = [
        one
        for one in found.compared
        if all(side and side[0].quantity.kind != "whole" for side in (one.a, one.b))
    ]

    def order(one: Compared) -> tuple[bool, bool, bool]:
        row = one.difference
        differs = row.verdict != "cannot tell"
        return (
            not (row.is_symptom and differs),
            (row.quantity, row.subject, row.step) not in moved,
            not (differs or row.is_symptom),
        )

    ranked = sorted(usable, key=order)
    # All quantiles of one series have the same line.
    seen: set[tuple[str, str | None, str]] = set()
    kept = []
    for one in ranked:
        key = (one.difference.sql, one.difference.subject, one.difference.step)
        if key not in seen:
            seen.add(key)
            kept.append(one)
    return kept[:_MOST_ROWS]


def mean_line(every: Sequence[Series]) -> tuple[list[float], list[float | None]]:
    """The mean over the recordings of each block, at the middle of the block in s."""
    numpy, _ = resampling.libraries()
    lines = numpy.array([mechanisms.by_block(one) for one in every])
    known = numpy.isfinite(lines)
    number = known.sum(axis=0)
    total = numpy.where(known, lines, 0.0).sum(axis=0)
    width = every[0].recorded.window[1]
    x = [(place + 0.5) * width / 1e9 for place in range(BLOCKS)]
    y = [float(total[place] / number[place]) if number[place] else None for place in range(BLOCKS)]
    return x, [None if v is None or not math.isfinite(v) else v for v in y]
