"""The report of a comparison in a real browser: complete, silent, inert to hostile names."""

from __future__ import annotations

from pathlib import Path

import chromium
import compared_recordings
import pytest

from schedlens.differences import difference_page
from schedlens.differences.contrast import Comparison, compare
from schedlens.differences.rules_file import Rule, Rules

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
    ),
]

HOSTILE = "<img src=x onerror=alert(1)>\u202e'\"&]]>"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The second case study, fixed and faulty, with a process of a hostile name."""
    folder = tmp_path_factory.mktemp("page")
    sides = [
        compared_recordings.write(
            folder / name, fixed=fixed, seconds=2.0, process=HOSTILE,
            settings={"microcode": HOSTILE if fixed else "0x1"},
        )
        for name, fixed in (("fixed", True), ("fault", False))
    ]  # fmt: skip
    rules = Rules((Rule("shared_core_pct", max_increase=30.0),))
    return compare(*sides, rules=rules)


def test_page_shows_both_sides_without_complaint(found: Comparison, tmp_path: Path) -> None:
    difference_page.write(found, tmp_path / "compare.html")
    with chromium.Browser(tmp_path / "profile") as browser:
        browser.open(tmp_path / "compare.html")
        browser.evaluate(chromium.DRAW_ALL)
        assert (
            browser.evaluate(
                "[...document.querySelectorAll('.plot')].map((plot) => plot.dataset.state)"
            )
            == ["drawn"] * 3
        )
        names = browser.evaluate("[...document.querySelectorAll('section')].map((s) => s.id)")
        assert {"gate", "differences", "over_time", "quantiles", "machine"} <= set(names)
        assert "new" in browser.evaluate(
            "document.querySelector('#matched_findings table').innerText"
        )
        # Every row of the time axis has a line of each side.
        lines = browser.evaluate(
            "document.querySelector('#over_time .plot').data.map((line) => line.name)"
        )
        assert lines == ["A", "B"] * (len(lines) // 2)
        assert len(lines) >= 4
        assert "regression" in browser.evaluate("document.querySelector('#gate').innerText")
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
        assert browser.complaints == []
        assert browser.requests == [(tmp_path / "compare.html").resolve().as_uri()]
