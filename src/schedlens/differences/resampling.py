"""Intervals and tests of a difference between two sides, by resampling (SciPy).

What is exchangeable decides the method.

With enough repeats, the unit is the recording. The difference is the Hodges-Lehmann shift, its
interval comes from a bootstrap of the recordings, and the test permutes them between the sides:
exact if nothing changed.

Otherwise the unit is a block of consecutive values that is long against their correlation. Its
length follows Politis and White, "Automatic Block-Length Selection for the Dependent Bootstrap"
(Econometric Reviews 23, 2004, corrected by Patton, Politis and White in 28, 2009), for each series;
the longest length applies. Blocks do not overlap (Carlstein, Annals of Statistics 14, 1986). A
bootstrap of the blocks shows how exactly one recording is measured, but two recordings of one
program also differ from run to run, which no single recording shows, however long it is. Two runs
are therefore taken to differ as much as two independent blocks of one run do: the standard error of
the bootstrap is multiplied by the square root of the number of blocks, which is that of one block
out of n (Bickel, Goetze and van Zwet, Statistica Sinica 7, 1997). Interval and test use Student's t
with Welch's degrees of freedom, as there are few blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from schedlens.lake.extras import needed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:
    Floats = Any

EXTRA = "compare"
# With fewer blocks on a side, their number says more about the interval than their values.
LEAST_BLOCKS = 5
# More blocks than this make no test better and every test slower.
MOST_BLOCKS = 40
# A quantile needs this many values beyond it on each side.
LEAST_BEYOND = 10
# Fewer ways to divide the units into two sides could not reach 5 %, two-sided.
LEAST_DIVISIONS = 40

Statistic = Literal["shift", "mean", "quantile"]
Alternative = Literal["two-sided", "greater", "less"]

_RESAMPLES = 1_999
# Applied if the first test is close to what its number of permutations can show.
_MORE_RESAMPLES = 9_999
_CLOSE = 0.02
# Numbers in memory at once, of the largest array that a statistic makes.
_BATCH = 4_000_000
_SEED = 20_240_229


@dataclass(frozen=True)
class Units:
    """The exchangeable units of one side: one row each.

    One column: the value of a unit. Several: the values in a block of items. `are_repeats`: each
    unit is a recording; otherwise a block of one.
    """

    values: Floats
    are_repeats: bool

    @property
    def number(self) -> int:
        """How many there are."""
        return int(self.values.shape[0])


@dataclass(frozen=True)
class Estimate:
    """A difference (B minus A) with a 95 % interval and the p-value of the test of no change."""

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float
    statistic: Statistic


def libraries() -> tuple[Any, Any]:
    """numpy and scipy.stats; raises `MissingExtraError` where they are not installed."""
    return needed("numpy", EXTRA), needed("scipy.stats", EXTRA)


def block_length(series: Floats) -> int:
    """How many consecutive values make a block that hardly depends on the next one.

    Politis and White (2004) for the circular and the moving block bootstrap of the mean. 1 for a
    series without variation; at most a third of the series.
    """
    numpy, _ = libraries()
    x = numpy.asarray(series, dtype=float)
    n = len(x)
    x = x - x.mean() if n else x
    variance = float(x @ x) / n if n else 0.0
    if n < 8 or variance <= 1e-24 * (1 + float(numpy.abs(series).max()) ** 2):
        return 1
    consecutive = max(5, math.ceil(math.sqrt(math.log10(n))))
    most_lag = min(n - 1, math.ceil(math.sqrt(n)) + consecutive)
    covariance = numpy.array([float(x[: n - lag] @ x[lag:]) / n for lag in range(most_lag + 1)])
    small = numpy.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    # The first lag from which on `consecutive` correlations are negligible.
    first = next(
        (lag for lag in range(len(small)) if small[lag : lag + consecutive].all()), len(small)
    )
    width = min(2 * max(1, first), most_lag)
    lags = numpy.arange(-width, width + 1)
    share = numpy.abs(lags) / width
    weight = numpy.where(share <= 0.5, 1.0, 2 * (1 - share))
    spectrum = weight * covariance[numpy.abs(lags)]
    slope = float((spectrum * numpy.abs(lags)).sum())
    flat = float(spectrum.sum()) ** 2 * 4 / 3
    longest = math.ceil(min(3 * math.sqrt(n), n / 3))
    if flat <= 0:
        return longest
    return int(min(longest, max(1, math.ceil((2 * slope**2 / flat) ** (1 / 3) * n ** (1 / 3)))))


def estimate(a: Units, b: Units, quantile: float | None = None) -> Estimate:
    """The difference between two sides, with its interval and its test of no change.

    Recordings are compared by the Hodges-Lehmann shift, the median of all differences between a
    value of B and one of A, or by the mean if half of the values of a side are equal, since such a
    median ignores the others. Blocks are compared by the quantile of their items, or by their mean.
    """
    kind = _statistic(a, b, quantile)
    level_a, level_b = _level(a, kind, quantile), _level(b, kind, quantile)
    difference = _difference(a, b, kind, quantile)
    if a.are_repeats:
        low, high = _interval(a, b, kind)
    else:
        _, stats = libraries()
        error, freedom = _error(a, b, quantile)
        half = error * float(stats.t.ppf(0.975, freedom))
        low, high = difference - half, difference + half
    return Estimate(
        level_a, level_b, difference, min(low, difference), max(high, difference),
        p_value(a, b, quantile), kind,
    )  # fmt: skip


def p_value(
    a: Units, b: Units, quantile: float | None = None, alternative: Alternative = "two-sided"
) -> float:
    """The p-value of the test that both sides are alike; `greater` is small if B is greater."""

    if not a.are_repeats:
        return _beyond(a, b, quantile, alternative)
    kind = _statistic(a, b, quantile)
    rough = _permuted(a, b, kind, alternative, _RESAMPLES)
    return rough if rough > _CLOSE else _permuted(a, b, kind, alternative, _MORE_RESAMPLES)


def divisions(a: int, b: int) -> int:
    """In how many ways `a + b` units can be divided into sides of these sizes."""
    return math.comb(a + b, a)


def false_discovery(p_values: list[float]) -> list[float]:
    """The p-values after Benjamini and Hochberg, so that at most 5 % of all findings are false."""
    _, stats = libraries()
    return [float(p) for p in stats.false_discovery_control(p_values)] if p_values else []


def _statistic(a: Units, b: Units, quantile: float | None) -> Statistic:
    if a.are_repeats:
        return "mean" if _ties(a) or _ties(b) else "shift"
    return "mean" if quantile is None else "quantile"


def _ties(side: Units) -> bool:
    numpy, _ = libraries()
    counts = numpy.unique(side.values[:, 0], return_counts=True)[1]
    return bool(2 * counts.max() >= side.number and side.number > 2)


def _level(side: Units, kind: Statistic, quantile: float | None) -> float:
    numpy, _ = libraries()
    if kind == "quantile":
        return float(numpy.quantile(side.values, quantile))
    return float(numpy.median(side.values) if kind == "shift" else side.values.mean())


def _difference(a: Units, b: Units, kind: Statistic, quantile: float | None) -> float:
    numpy, _ = libraries()
    if kind == "shift":
        return float(numpy.median(b.values - a.values[:, 0]))
    return _level(b, kind, quantile) - _level(a, kind, quantile)


def _shift(x: Any, y: Any, axis: int = -1) -> Any:
    """The Hodges-Lehmann shift from x to y along the last axis."""
    numpy, _ = libraries()
    x, y = numpy.moveaxis(x, axis, -1), numpy.moveaxis(y, axis, -1)
    pairs = y[..., :, None] - x[..., None, :]
    return numpy.median(pairs.reshape(*pairs.shape[:-2], -1), axis=-1)


def _mean_difference(x: Any, y: Any, axis: int = -1) -> Any:
    return y.mean(axis=axis) - x.mean(axis=axis)


def _interval(a: Units, b: Units, kind: Statistic) -> tuple[float, float]:
    numpy, stats = libraries()
    found = stats.bootstrap(
        (a.values[:, 0], b.values[:, 0]),
        _shift if kind == "shift" else _mean_difference,
        n_resamples=_RESAMPLES, batch=max(1, _BATCH // (a.number * b.number)), vectorized=True,
        method="percentile", rng=numpy.random.default_rng(_SEED),
    )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _permuted(
    a: Units, b: Units, kind: Statistic, alternative: Alternative, resamples: int
) -> float:
    numpy, stats = libraries()
    found = stats.permutation_test(
        (a.values[:, 0], b.values[:, 0]),
        _shift if kind == "shift" else _mean_difference,
        permutation_type="independent", n_resamples=resamples,
        batch=max(1, _BATCH // (a.number * b.number)), vectorized=True, alternative=alternative,
        rng=numpy.random.default_rng(_SEED),
    )  # fmt: skip
    return float(found.pvalue)


def _error(a: Units, b: Units, quantile: float | None) -> tuple[float, float]:
    """The standard error of the difference of two runs, and its degrees of freedom (Welch)."""
    variances = [_variance(side, quantile, seed) for seed, side in enumerate((a, b))]
    parts = [
        variance**2 / (side.number - 1) for variance, side in zip(variances, (a, b), strict=True)
    ]
    total = sum(variances)
    return math.sqrt(total), total**2 / sum(parts) if sum(parts) > 0 else 1.0


def _variance(side: Units, quantile: float | None, seed: int) -> float:
    """The variance of the level of one block out of n, by a bootstrap of the blocks."""
    numpy, stats = libraries()
    values = side.values
    means = values.mean(axis=1)

    def level(places: Any, axis: int = -1) -> Any:
        if quantile is None:
            return means[places].mean(axis=axis)
        chosen = values[numpy.moveaxis(places, axis, -1)]
        return numpy.quantile(chosen.reshape(*chosen.shape[:-2], -1), quantile, axis=-1)

    found = stats.bootstrap(
        (numpy.arange(side.number),), level, n_resamples=_RESAMPLES,
        batch=max(1, _BATCH // values.size), vectorized=True, method="percentile",
        rng=numpy.random.default_rng(_SEED + seed),
    )  # fmt: skip
    # Resamples of n blocks vary by (n - 1) / n of what n blocks vary by.
    return float(found.standard_error) ** 2 * side.number**2 / (side.number - 1)


def _beyond(a: Units, b: Units, quantile: float | None, alternative: Alternative) -> float:
    """The p-value of Student's t for two runs that differ as two blocks do."""
    _, stats = libraries()
    difference = _difference(a, b, _statistic(a, b, quantile), quantile)
    error, freedom = _error(a, b, quantile)
    # Levels that are equal but for rounding, of quantities that never varied.
    if error <= 1e-12 * max(abs(_level(side, "mean", None)) for side in (a, b)):
        moved = math.copysign(math.inf, difference) if abs(difference) > error else 0.0
    else:
        moved = difference / error
    if alternative == "greater":
        return float(stats.t.sf(moved, freedom))
    if alternative == "less":
        return float(stats.t.cdf(moved, freedom))
    return float(2 * stats.t.sf(abs(moved), freedom))
