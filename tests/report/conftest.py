"""What the tests of the report in a browser share: one Chromium, and the reports built once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import pytest
import report_database
import report_with_frames
import timeline_page

from schedlens.report import page


@pytest.fixture(scope="package")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    with chromium.Browser(tmp_path_factory.mktemp("profile"), 1280, 900) as browser:
        timeline_page.hasten(browser)
        yield browser


@pytest.fixture
def browser(window: chromium.Browser) -> Iterator[chromium.Browser]:
    """The window as if it were new, 1280 by 800 pixels."""
    window.reset(1280, 800)
    yield window
    window.complaints.clear()


@pytest.fixture
def timeline(window: chromium.Browser) -> Iterator[chromium.Browser]:
    window.reset(1280, 900)
    yield window
    complaints, window.complaints = window.complaints, []
    assert complaints == []


@pytest.fixture(scope="package")
def frames_shown() -> dict[str, Any]:
    """What the page of a recording with frames shows."""
    with report_with_frames.create() as con:
        return page.payload(page.chosen_view(con, None, None))


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory, frames_shown: dict[str, Any]) -> Path:
    """Three reports: a sweep, the same for the step with the most threads, and frames."""
    folder = tmp_path_factory.mktemp("reports")
    with report_database.create(threads=(1, 10, 14)) as con:
        page.write(con, folder / "sweep.html")
        page.write(con, folder / "plain.html", step="sha256-siblings-t14-r1")
    (folder / "frames.html").write_text(page.page(frames_shown, "frames"), encoding="utf-8")
    return folder
