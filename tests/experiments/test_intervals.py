"""How often intervals of experiments contain a known truth; `make statistics-check` is longer."""

from __future__ import annotations

import pytest
import simulated_intervals
from simulated_intervals import Model

pytestmark = pytest.mark.slow


def test_intervals_in_cycles_contain_the_truth_despite_drift_and_disturbance() -> None:
    rows = {row.column: row for row in simulated_intervals.measure(Model(), 250, seed=4)}
    for column in ("first_slowdown_cycles", "second_slowdown_cycles"):
        # 250 experiments: the standard error is 1.2 to 1.4 points, so three are 4.
        assert 91 <= rows[column].covered_pct <= 100, rows[column]
        assert rows[column].stated_pct == pytest.approx(96.875, abs=0.2)
    # In time, the drift of the clock is part of the interval.
    assert rows["first_slowdown"].width_pct > 1.5 * rows["first_slowdown_cycles"].width_pct


def test_disturbance_without_replacement_would_leave_too_few_repeats() -> None:
    [row, *_] = simulated_intervals.measure(Model(disturbed=0.8), 30, seed=4)
    assert row.short > 15
    assert row.stated_pct < 95
