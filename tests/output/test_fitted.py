"""Which columns a terminal shows, and text with a hanging indent."""

from __future__ import annotations

from schedlens.output import fitted

NAMES = ("trace_id", "thread", "utid", "run_ns", "run_high_ns", "state", "service")
ROWS = [
    ["1", "render", "4294967301", "1200000", "1300000", "ready", "NULL"],
    ["1", "audio", "4294967302", "800000", "900000", "ready", "NULL"],
]


def _shown(width: int, rows: list[list[str]] = ROWS) -> list[str]:
    return [NAMES[place] for place in fitted.chosen(NAMES, rows, width)]


def test_everything_is_shown_where_it_fits() -> None:
    assert _shown(200) == list(NAMES)


def test_empty_columns_raw_ids_and_bounds_are_left_out_first() -> None:
    assert _shown(58) == ["thread", "run_ns", "run_high_ns", "state"] or _shown(58) == [
        "trace_id", "thread", "run_ns", "run_high_ns", "state",
    ]  # fmt: skip
    assert _shown(30) == ["thread", "run_ns", "state"]
    assert _shown(16) == ["thread", "run_ns"]
    assert _shown(1) == ["thread"]


def test_number_of_the_recording_is_kept_if_rows_differ_in_it() -> None:
    rows = [ROWS[0], ["2", *ROWS[1][1:]]]
    assert _shown(30, rows) == ["trace_id", "thread", "run_ns"]


def test_lines_begin_below_each_other() -> None:
    text = "Raise the priority of this thread with SetThreadPriority and measure again."
    lines = fitted.hanging(text, 40, 9)
    assert [line[:9] for line in lines] == [" " * 9] * len(lines)
    assert max(map(len, lines)) <= 40
    assert " ".join(line.strip() for line in lines) == text
