"""Figures over time match the queries and the drawn timeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import report_database
import report_with_frames

from schedlens.report import page, timeline
from schedlens.report.sections import View

pytestmark = pytest.mark.slow

MS = report_database.MS
SPAN: dict[str, Any] = {"start_ns": 10 * MS, "end_ns": 290 * MS, "dur_ns": 280 * MS}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with report_with_frames.create() as con:
        yield con


def view(con: duckdb.DuckDBPyConnection) -> View:
    return View(con, None, 1, "step")


@pytest.mark.parametrize("columns", ["NULL", "1", "7", "500", "280000000"])
def test_columns_tile_the_window_without_losing_time(
    con: duckdb.DuckDBPyConnection, columns: str
) -> None:
    if columns == "280000000":
        # One column per nanosecond, in a window of 50 us around a slice's end.
        call = f"concurrency_timeline(p_from_ns := {30 * MS}, p_to_ns := {30 * MS} + 50, "
        total = f"concurrency(p_from_ns := {30 * MS}, p_to_ns := {30 * MS} + 50)"
    else:
        call, total = "concurrency_timeline(", "concurrency"
    sums = "sum({0} * {1})::DECIMAL(30, 3)"
    names = ("busy", "p", "e", "other", "smt", "ready")
    asked = ", ".join(sums.format(name, "dur_ns") for name in names)
    expected = ", ".join(sums.format(name, "ns") for name in names)
    found = con.execute(
        f"SELECT sum(dur_ns), {asked} FROM {call}p_columns := {columns})"
    ).fetchone()
    assert found == con.execute(f"SELECT sum(ns), {expected} FROM {total}").fetchone()
    gaps = con.execute(
        "SELECT count(*) FROM (SELECT lead(start_ns) OVER (ORDER BY start_ns) AS next, * "
        f"FROM {call}p_columns := {columns})) WHERE next <> start_ns + dur_ns"
    ).fetchone()
    assert gaps == (0,)


def test_parked_cpus_are_counted_at_each_moment(con: duckdb.DuckDBPyConnection) -> None:
    spells = timeline.parking(view(con), SPAN)
    assert [(s["cpu"], s["ts"] // MS, s["end_ns"] // MS, s["soft"]) for s in spells] == [
        (3, 100, 200, False), (5, 180, 290, False),
    ]  # fmt: skip
    figure = timeline.parked_count(spells, 16, SPAN)
    assert figure is not None
    assert figure.caption.startswith("Parked CPUs: 0.8 on average, 2 at most, of 16.")
    (layer,) = figure.plot["layers"]
    assert [start // MS for start in layer["start"]] == [0, 90, 170, 190]
    assert layer["series"][0]["values"] == [0, 1, 2, 1]
    assert timeline.parked_count([], 16, SPAN) is None


def test_too_many_changes_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOST_CHANGES", 3)
    monkeypatch.setattr(timeline, "COLUMNS", 4)
    span = {"start_ns": 100, "end_ns": 200, "dur_ns": 100}
    spells = [
        {"cpu": 0, "ts": 110, "end_ns": 160, "soft": False},
        {"cpu": 1, "ts": 120, "end_ns": 130, "soft": False},
        {"cpu": 2, "ts": 190, "end_ns": 200, "soft": True},
    ]
    figure = timeline.parked_count(spells, 4, span)
    assert figure is not None
    # 15 + 5, 25 + 5, 10 and 10 ns of parking in columns of 25 ns.
    (layer,) = figure.plot["layers"]
    assert layer["start"] == [0, 25, 50, 75]
    assert layer["series"][0]["values"] == [0.8, 1.2, 0.4, 0.4]


def test_stutters_are_marked_at_their_time(con: duckdb.DuckDBPyConnection) -> None:
    rows = view(con).rows("FROM frame_time")
    figure = timeline.frames(rows, SPAN, height=150)
    assert figure is not None
    assert figure.plot["marks"] == [[90 * MS, 130 * MS]]
    assert figure.plot["data"][-1]["customdata"] == [[5, 40.0, 24.0]]
    assert figure.plot["data"][0]["y"] == [float(ms) for ms in report_with_frames.LENGTHS]
    assert figure.caption.startswith("16 frames, 1 of them a stutter (")
    assert "last 16.0 ms or less, the longest 40.0 ms" in figure.caption
    assert timeline.frames([], SPAN, height=150) is None


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (report_database.Machine(10, e_cores=4), [(6, "P"), (10, "P + E"), (16, "P + E + SMT")]),
        (report_database.Machine(4), [(4, "all cores"), (8, "all cores + SMT")]),
    ],
)
def test_capacity_lines_count_cores_and_cpus(
    machine: report_database.Machine, expected: list[tuple[int, str]]
) -> None:
    with report_database.create(machine=machine, threads=(1,), placements=("physical",)) as con:
        assert timeline.capacity(view(con)) == expected


def test_first_screen_shows_the_stutter_with_cost_per_frame(
    con: duckdb.DuckDBPyConnection,
) -> None:
    findings = page.payload(page.chosen_view(con, None, None))["findings"]
    first = findings["cards"][findings["top"][0]]
    assert first["kind"] == "stutter"
    assert first["cost_ns"] == 24 * MS
    assert first["per_frame"] == {"ns": 1_500_000, "frames": 16, "usual_ns": 16 * MS}
