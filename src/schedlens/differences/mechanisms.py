"""Names the mechanism of a difference: which analyzer's quantity moved with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlens.differences import resampling
from schedlens.differences.quantities import BLOCKS
from schedlens.differences.resampling import Floats
from schedlens.differences.series import Series

if TYPE_CHECKING:
    from schedlens.differences.contrast import Compared

# A weaker rank correlation explains less than a tenth of the variance of the ranks.
LEAST_CORRELATION = 0.3
# Fewer pairs of values have a high rank correlation by chance.
LEAST_VALUES = 8
MOST = 5


@dataclass(frozen=True)
class Mechanism:
    """A quantity that differs as well and moved with a symptom.

    `correlation` is Spearman's rank correlation of both over the same blocks of time (or over the
    recordings) of both sides. It shows that they moved together, not which one is the cause.
    """

    symptom: str
    symptom_subject: str | None
    step: str
    quantity: str
    subject: str | None
    text: str
    analyzer: str
    change_pct: float | None
    correlation: float


def found(compared: Sequence[Compared]) -> tuple[Mechanism, ...]:
    """For each symptom that differs, the quantities that moved with it, the closest first."""
    moved = [one for one in compared if one.difference.verdict != "cannot tell"]
    listed: list[Mechanism] = []
    for symptom in (one for one in moved if one.difference.is_symptom):
        own = [
            Mechanism(
                symptom.difference.quantity,
                symptom.difference.subject,
                symptom.difference.step,
                other.difference.quantity,
                other.difference.subject,
                other.difference.text,
                other.difference.analyzer,
                other.difference.change_pct,
                correlation,
            )
            for other in moved
            if not other.difference.is_symptom
            and other.difference.step == symptom.difference.step
            and abs(correlation := _correlation(symptom, other)) >= LEAST_CORRELATION
        ]
        listed += sorted(own, key=lambda one: -abs(one.correlation))[:MOST]
    return tuple(listed)


def _correlation(symptom: Compared, other: Compared) -> float:
    numpy, stats = resampling.libraries()
    xs, ys = [], []
    for own, others in ((symptom.a, other.a), (symptom.b, other.b)):
        by_place = {(one.recorded.database, one.recorded.trace_id): one for one in others}
        for one in own:
            same = by_place.get((one.recorded.database, one.recorded.trace_id))
            if same is None:
                continue
            if symptom.difference.units == "recordings":
                xs.append(_single(one.whole()))
                ys.append(_single(same.whole()))
            else:
                xs.append(by_block(one))
                ys.append(by_block(same))
    if not xs:
        return 0.0
    x, y = numpy.concatenate(xs), numpy.concatenate(ys)
    known = numpy.isfinite(x) & numpy.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < LEAST_VALUES or numpy.ptp(x) == 0 or numpy.ptp(y) == 0:
        return 0.0
    value = float(stats.spearmanr(x, y).statistic)
    return value if math.isfinite(value) else 0.0


def _single(value: float | None) -> Floats:
    numpy, _ = resampling.libraries()
    single: Floats = numpy.array([math.nan if value is None else value])
    return single


def by_block(one: Series) -> Floats:
    """The value of each block of the window, the mean of the items that begin in it; else nan."""
    numpy, _ = resampling.libraries()
    values: Floats = numpy.full(BLOCKS, math.nan)
    if one.quantity.kind == "ratio":
        known = one.den > 0
        values[known] = one.num[known] / one.den[known]
        return values
    if one.quantity.kind == "items":
        start, width = one.recorded.window
        places = ((one.place - start) // width).astype(int)
        inside = (places >= 0) & (places < BLOCKS)
        count = numpy.bincount(places[inside], minlength=BLOCKS)
        total = numpy.bincount(places[inside], weights=one.num[inside], minlength=BLOCKS)
        values[count > 0] = total[count > 0] / count[count > 0]
    return values
