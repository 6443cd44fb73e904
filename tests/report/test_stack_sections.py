"""The section on stutters by code: how they differ from other frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from drawn_stacks import MS, database_with_stacks

from schedlens.report import flame, page, sections
from schedlens.report.sections import Section


def drawn(plot: dict[str, Any]) -> dict[str, tuple[float, Any]]:
    """Width and color by path of an icicle."""
    trace = plot["data"][0]
    paths: list[str] = []
    for label, parent in zip(trace["labels"], trace["parents"], strict=True):
        paths.append(f"{paths[int(parent)]};{label}" if parent else label)
    shown = zip(trace["values"], trace["marker"]["colors"], strict=True)
    return {
        path.removeprefix("all threads;"): (round(width, 6), color)
        for path, (width, color) in zip(paths, shown, strict=True)
    }


def row(folded: str | None, one: int, other: int) -> dict[str, Any]:
    return {"thread": "A", "folded": folded, "one_ns": one, "other_ns": other}


def test_a_differential_graph_shows_both_shares_and_their_difference() -> None:
    """60 and 40 % in the one, 20 and 80 % in the other; and code that only one of them has."""
    rows = [
        row("main;lock", 6 * MS, 2 * MS), row("main;read", 0, 3 * MS), row(None, 4 * MS, 5 * MS),
    ]  # fmt: skip
    plot = flame.differential(rows, ("one_ns", "other_ns"))
    assert plot is not None
    found = {path: (width, round(change, 6)) for path, (width, change) in drawn(plot).items()}
    assert found == {
        "all threads": (100, 0),
        "A": (100, 0),
        "A;main": (55, 10),
        "A;[no stack]": (45, -10),
        "A;main;lock": (40, 40),
        "A;main;read": (15, -30),
    }
    trace = plot["data"][0]
    assert trace["customdata"][trace["labels"].index("lock")][1:] == [6, 2]
    # The scale is symmetric: no change is in its middle.
    assert (trace["marker"]["cmin"], trace["marker"]["cmax"]) == pytest.approx((-40, 40))


@pytest.mark.parametrize("rows", [[], [row("main", MS, 0)], [row("main", 0, MS)]])
def test_a_side_without_time_has_no_shares_to_compare(rows: list[dict[str, Any]]) -> None:
    assert flame.differential(rows, ("one_ns", "other_ns")) is None


def test_small_functions_of_a_differential_graph_keep_their_sums() -> None:
    rows = [row("main;big", 990 * MS, 990 * MS)]
    rows += [row(f"main;small {n}", MS, MS) for n in range(10)]
    plot = flame.differential(rows, ("one_ns", "other_ns"))
    assert plot is not None
    trace = plot["data"][0]
    assert trace["customdata"][trace["labels"].index("(smaller)")] == pytest.approx([0, 10, 10])


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """Frames of game: the one from 1 to 6 ms, with the wait of A for the lock, is a stutter."""
    edges = [0, 1, 6, 7, 8, 9, 10]
    with database_with_stacks() as database:
        database.execute(
            "INSERT INTO frame BY NAME SELECT 1 AS trace_id, number AS frame, upid, utid, "
            "begin_ms * 1000000 AS start_ns, (end_ms - begin_ms) * 1000000 AS dur_ns, "
            "'mark' AS dialect FROM (SELECT unnest(range(6)) AS number, unnest(?) AS begin_ms, "
            "unnest(?) AS end_ms) CROSS JOIN (SELECT upid, utid FROM thread WHERE name = 'A')",
            [edges[:-1], edges[1:]],
        )
        yield database


def made(con: duckdb.DuckDBPyConnection, name: str) -> Section:
    """A section of the report."""
    (chapter,) = (one for one in sections.chapters() if one.name == name)
    found = sections.made(page.chosen_view(con, None, None), chapter)
    assert isinstance(found, Section)
    return found


def test_stutters_and_other_frames_have_their_totals_in_words(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """In the stutter A waits 2 ms, is ready 2 ms, and B waits 2 ms; in others, 0.2 and 1 ms."""
    shares = made(con, "stutter_stack").figures[1]
    assert shares.name == "shares"
    assert shares.caption.startswith(
        "Stutters against other frames: waiting and ready time of all threads, 6.0 ms in the mean "
        "of 1 stutter, 1.2 ms in the mean of 5 other frames."
    )
    found = drawn(shares.plot)
    assert found["A;main;Queue::take"] == pytest.approx((100 / 3, 200 / 3))
    assert found["A;[no stack]"][1] == pytest.approx(-100 / 6)
    assert found["B;[no stack]"][1] == pytest.approx(-50)
