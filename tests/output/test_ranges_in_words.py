"""A range whose ends read alike is one number."""

from __future__ import annotations

import pytest
from judged import plain

from schedlens.output import wording


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(1.9991, 2.0004, ""), (2.0, 2.0, ""), (1.99, 2.0, " (1.99 to 2)"), (None, 2.0, "")],
)
def test_interval_with_ends_that_read_alike_is_left_out(
    low: float | None, high: float, said: str
) -> None:
    assert wording.interval(low, high) == said


@pytest.mark.parametrize(
    ("low_ns", "high_ns", "said"),
    [(4_020_100, 4_020_300, "4.02 ms"), (4_020_000, 5_000_000, "4.02 ms to 5 ms")],
)
def test_cost_with_ends_that_read_alike_is_one_number(low_ns: int, high_ns: int, said: str) -> None:
    assert plain(wording.cost(4_020_200, "range", low_ns, high_ns)) == said


def test_range_with_ends_that_read_alike_is_one_number() -> None:
    # Busy CPUs on average over recordings: 1.998 to 2.001.
    assert wording.between(f"{1.998:.3g}", f"{2.001:.3g}") == "2"
    assert wording.between("1.5", "2") == "1.5 to 2"
