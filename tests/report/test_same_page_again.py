"""What the page contains does not depend on the order in which DuckDB's threads work."""

from __future__ import annotations

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database

from schedlens.report import embedded
from schedlens.report import table as page_table

NAMES = ["game/A", "game/B", "game/C", "game/D"]


def test_equal_waits_are_in_the_order_of_their_threads() -> None:
    slices = [Slice(name, 0, 10 * place, 10) for place, name in enumerate(NAMES)]
    with drawn_database() as con:
        trace = DrawnTrace(con, slices, [Cpu(0, 0, 0, "P", 1)], 1_000)
        for name in reversed(NAMES):
            trace.add("thread_state_other", utid=trace.utid(name), ts=100, dur=50,
                      state="waiting", left_censored=False, right_censored=False)  # fmt: skip
        (recording,) = embedded.payload(con, 1)["recordings"]
        waits = [row["utid"] for row in recording["waits"] if row["start_ns"] == 100]
        assert waits == [trace.utid(name) for name in NAMES]


@pytest.mark.parametrize(
    ("one", "other"), [(0.1 + 0.2, 0.3), (3.2960083333333334, 3.296008333333334)]
)
def test_fractions_do_not_show_the_order_of_a_sum(one: float, other: float) -> None:
    assert one != other
    assert page_table.value(one) == page_table.value(other) == pytest.approx(other)


@pytest.mark.parametrize("number", [0.0, -1.5, 1e300, 12_345_678.25, 2**53 - 1])
def test_numbers_of_twelve_digits_and_whole_ones_are_exact(number: float) -> None:
    assert page_table.value(number) == number
