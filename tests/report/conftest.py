"""The browser that all tests of the report's timeline share."""

from __future__ import annotations

from collections.abc import Iterator

import chromium
import pytest
import timeline_page


@pytest.fixture(scope="package")
def timeline_window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    with chromium.Browser(tmp_path_factory.mktemp("profile"), 1280, 900) as browser:
        timeline_page.hasten(browser)
        yield browser


@pytest.fixture
def timeline(timeline_window: chromium.Browser) -> Iterator[chromium.Browser]:
    yield timeline_window
    complaints, timeline_window.complaints = timeline_window.complaints, []
    assert complaints == []
