"""Every time that a query returns states its bounds, and the bounds are true under loss."""

from __future__ import annotations

import pytest

from schedlens import bounds, questions

QUERIES = questions.load_all()
NAMES = [query.full_name for query in QUERIES]


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_every_time_column_states_its_bounds(query: questions.Query) -> None:
    names = [name for name, _ in query.columns]
    for column, comment in query.columns:
        bound = bounds.mark(query, column)
        if column == "ns" or column.endswith("_ns"):
            assert bound is not None, f"{column}: {comment}"
        if bound is None:
            continue
        for end in (bound.low, bound.high):
            assert end is None or end in names, f"{column} names {end}"
        if bound.kind == "range":
            for end in (bound.low, bound.high):
                kind = bounds.mark(query, str(end))
                assert end == column or (kind and kind.kind == "bound"), f"{column} names {end}"


def test_marks_are_read_from_comments() -> None:
    assert bounds.parse("Length, ns. (exact)") == bounds.Bound("exact")
    assert bounds.parse("Begin, ns. (time)") == bounds.Bound("time")
    assert bounds.parse("Time, ns. (at least; unknown_ns more at most)") == bounds.Bound(
        "slack", high="unknown_ns"
    )
    assert bounds.parse("Time, ns. (from low_ns to high_ns)") == bounds.Bound(
        "range", "low_ns", "high_ns"
    )
    assert bounds.parse("Time (in all), ns.") is None
    assert bounds.parse("Time (lower bound)") is None
    assert bounds.without_mark("Time, ns. (at least)") == "Time, ns."
    assert bounds.without_mark("Time (lower bound)") == "Time (lower bound)"


def test_limits_of_a_value_follow_its_mark() -> None:
    row = {"x_ns": 5, "unknown_ns": 2, "low_ns": 3, "high_ns": None, "y_ns": None}
    slack = bounds.Bound("slack", high="unknown_ns")
    assert slack.limits("x_ns", row) == (5, 7)
    assert slack.limits("y_ns", row) == (None, None)
    assert bounds.Bound("exact").limits("x_ns", row) == (5, 5)
    assert bounds.Bound("at_least").limits("x_ns", row) == (5, None)
    assert bounds.Bound("at_most").limits("x_ns", row) == (None, 5)
    assert bounds.Bound("range", "low_ns", "high_ns").limits("x_ns", row) == (3, None)
    assert bounds.Bound("none").limits("x_ns", row) == (None, None)
