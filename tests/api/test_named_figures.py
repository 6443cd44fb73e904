"""Each figure of the report is available by its name, with the numbers of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import report_database
import report_with_frames

from schedlens.api import drawing
from schedlens.api.notebook import Analysis
from schedlens.errors import NothingToReadError, UnknownNameError
from schedlens.report import page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["steps", "frames"])
def analysis(request: pytest.FixtureRequest) -> Iterator[Analysis]:
    made = (
        report_database.create(threads=(1, 14))
        if request.param == "steps"
        else report_with_frames.create()
    )
    with made as con:
        yield Analysis(Path(), con)


@pytest.fixture(scope="module")
def shown(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """The figures of the page, by name."""
    sections = page.payload(page.chosen_view(analysis.con, None, None))["sections"]
    return {figure["name"]: figure for section in sections for figure in section["figures"]}


def test_every_figure_of_the_page_is_drawn_by_its_name(
    analysis: Analysis, shown: dict[str, dict[str, Any]]
) -> None:
    assert len(shown) >= 12
    for name, figure in shown.items():
        drawn = analysis.figure(name)
        assert drawn.layout.meta["name"] == name
        assert drawn.layout.meta["caption"] == figure["caption"]
        assert len(drawn.data) >= 1, name
        assert "@" not in str(drawn.data[0].marker), name


def test_bars_and_steps_have_the_numbers_of_the_page(
    analysis: Analysis, shown: dict[str, dict[str, Any]]
) -> None:
    compared = 0
    for name, figure in shown.items():
        drawn = analysis.figure(name)
        if figure["kind"] in ("plot", "frames"):
            for trace, given in zip(drawn.data, figure["plot"]["data"], strict=True):
                first = figure["plot"].get("first", None)
                for key in ("x", "y"):
                    assert _listed(trace[key]) == _listed(given.get(key))[:first], name
            compared += 1
        if figure["kind"] == "steps":
            series = [one for layer in figure["plot"]["layers"] for one in layer["series"]]
            for trace, one in zip(drawn.data, series, strict=True):
                assert _listed(trace.y)[:-1] == one["values"], name
            compared += 1
        # The page draws its timeline from slices of its own, not from these runs.
        if figure["kind"] == "threads":
            runs = figure["plot"]["runs"]
            bars = [trace for trace in drawn.data if trace.name != "parked"]
            total = sum(sum(_listed(trace.x)) for trace in bars)
            assert total == pytest.approx(sum(runs["dur"]) / 1e6), name
            assert sum(len(trace.y) for trace in bars) == len(runs["row"])
            compared += 1
    assert compared >= 10


def _listed(values: Any) -> list[Any]:
    return (
        [] if values is None else [getattr(value, "item", lambda v=value: v)() for value in values]
    )


def test_unknown_and_absent_figures_are_one_line(analysis: Analysis) -> None:
    with pytest.raises(UnknownNameError, match="did you mean sibling_overlap"):
        analysis.figure("sibling_overlap.core")
    with pytest.raises(NothingToReadError, match="collect --experiment pairs"):
        analysis.figure("pair_interference.throughput")
    with pytest.raises(UnknownNameError, match="no step named"):
        analysis.figure("topology.map", recording="none")


def test_drawing_leaves_no_table_behind(analysis: Analysis) -> None:
    analysis.figure("cpu_timeline.timeline")
    left = analysis.sql("SELECT table_name FROM duckdb_tables() WHERE temporary")
    assert [name for name in left["table_name"].to_pylist() if name == "report_timeline"] == []


def test_colors_are_those_of_the_light_page() -> None:
    assert drawing.colours()["blue"] == "#2f6db3"
    assert drawing._resolved({"color": "@blue", "text": "<b>"}) == {
        "color": "#2f6db3",
        "text": "&lt;b&gt;",
    }
