"""These two series, this difference, interval and p-value."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from schedlens.differences import resampling
from schedlens.differences.resampling import Units


def repeats(*values: float) -> Units:
    return Units(np.array(values)[:, None], True)


def blocks(values: np.ndarray) -> Units:
    return Units(values, False)


def autoregressive(phi: float, n: int, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=n)
    series = np.zeros(n)
    for place in range(1, n):
        series[place] = phi * series[place - 1] + noise[place]
    return series


def test_blocks_of_correlated_series_are_longer() -> None:
    def mean_length(phi: float) -> float:
        return statistics.mean(
            resampling.block_length(autoregressive(phi, 400, seed)) for seed in range(40)
        )

    # Politis and White (2004), table 1: for AR(1) with 400 values the best length of the circular
    # bootstrap is (2 G^2 / D)^(1/3) N^(1/3), with G = 2 phi/(1 - phi^2)/(1 - phi)^2 and so on.
    def best(phi: float) -> float:
        slope = 2 * phi / ((1 - phi**2) * (1 - phi) ** 2)
        density = (1 + phi) / ((1 - phi**2) * (1 - phi))
        return math.cbrt(2 * slope**2 / (4 / 3 * density**2) * 400)

    assert mean_length(0.0) < 4
    for phi in (0.5, 0.7):
        assert 0.7 * best(phi) < mean_length(phi) < 1.5 * best(phi)


def test_constant_or_short_series_has_blocks_of_one() -> None:
    assert resampling.block_length(np.full(100, 4500.0)) == 1
    assert resampling.block_length(np.arange(5.0)) == 1
    assert resampling.block_length(np.array([])) == 1


def test_repeats_differ_by_the_hodges_lehmann_shift() -> None:
    a, b = (10.0, 11.0, 12.0, 13.5, 40.0), (14.0, 15.0, 16.5, 17.0, 18.0)
    found = resampling.estimate(repeats(*a), repeats(*b))
    assert found.statistic == "shift"
    assert found.difference == statistics.median(y - x for x in a for y in b)
    assert (found.a, found.b) == (12.0, 16.5)
    assert found.low <= found.difference <= found.high


def test_separate_repeats_have_the_exact_p_value() -> None:
    found = resampling.estimate(repeats(1, 2, 3, 4), repeats(11, 12, 13, 14))
    # 2 of the 70 divisions of 8 recordings are as extreme.
    assert found.p == pytest.approx(2 / 70)
    assert resampling.p_value(
        repeats(1, 2, 3, 4), repeats(11, 12, 13, 14), alternative="greater"
    ) == pytest.approx(1 / 70)
    assert resampling.p_value(
        repeats(1, 2, 3, 4), repeats(11, 12, 13, 14), alternative="less"
    ) == pytest.approx(1.0)


def test_repeats_that_are_mostly_equal_are_compared_by_their_mean() -> None:
    found = resampling.estimate(repeats(0, 0, 0, 8), repeats(0, 0, 0, 0))
    assert (found.statistic, found.a, found.b, found.difference) == ("mean", 2.0, 0.0, -2.0)


def test_longer_recordings_do_not_hide_differences_between_runs() -> None:
    rng = np.random.default_rng(1)
    p_values = []
    for number in (10, 40):
        a = blocks(rng.normal(10.0, 1.0, (number, 1)))
        # A run whose mean is one standard deviation of a block away.
        b = blocks(rng.normal(11.0, 1.0, (number, 1)))
        p_values.append(resampling.estimate(a, b).p)
    assert min(p_values) > 0.1


def test_interval_of_blocks_is_that_of_two_runs() -> None:
    rng = np.random.default_rng(2)
    a, b = (blocks(rng.normal(level, 1.0, (40, 1))) for level in (10.0, 20.0))
    found = resampling.estimate(a, b)
    # Two runs, each with the standard deviation of a block: 1.96 sqrt(2) on each side.
    half = 1.96 * math.sqrt(2)
    assert found.high - found.difference == pytest.approx(half, rel=0.25)
    assert found.difference - found.low == pytest.approx(half, rel=0.25)
    assert found.p < 0.001


def test_items_are_compared_by_their_quantile() -> None:
    rng = np.random.default_rng(3)
    a = blocks(rng.exponential(1.0, (30, 20)))
    b = blocks(10 + rng.exponential(1.0, (30, 20)))
    found = resampling.estimate(a, b, 0.95)
    expected = np.quantile(b.values, 0.95) - np.quantile(a.values, 0.95)
    assert found.statistic == "quantile"
    assert found.difference == pytest.approx(expected)
    assert found.p < 0.001


def test_constants_that_are_equal_do_not_differ() -> None:
    same = blocks(np.full((20, 1), 4500.0))
    found = resampling.estimate(same, same)
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_false_discoveries_are_adjusted_by_their_number() -> None:
    # p (i-th smallest of m) times m / i, then the smallest of it and all that follow.
    assert resampling.false_discovery([0.01, 0.04, 0.03, 0.5]) == pytest.approx(
        [0.04, 0.16 / 3, 0.16 / 3, 0.5]
    )
    assert resampling.false_discovery([]) == []
