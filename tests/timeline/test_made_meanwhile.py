"""What the report shows of the timeline is the same if a second thread makes it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from timeline_data import timeline_session

from schedlens.ask.findings import Scope
from schedlens.load import store
from schedlens.report import embedded
from schedlens.timeline.prepared import Timelines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with timeline_session(tmp_path_factory.mktemp("timeline")) as folder:
        yield folder


@pytest.fixture
def timelines(folder: Path, tmp_path: Path) -> Iterator[Timelines]:
    """The recordings of a session, as those of a large one are prepared: in a file."""
    with store.open_database(folder) as con:
        made = Timelines(con, tmp_path / "timeline.duckdb", least_parts=1)
        yield made
        made.detach()


# All slices; those around moments of both recordings; of one of them.
@pytest.mark.parametrize("budget", [8_000_000, 40_000, 100_000])
def test_slices_are_those_that_one_thread_makes(timelines: Timelines, budget: int) -> None:
    expected = embedded.payload(timelines.con, 2, budget, timelines)
    scope = Scope(timelines.con)
    with embedded.meanwhile(scope, 2, budget, timelines) as slices:
        rows = scope.rows("FROM thread_summary()")
        found = slices()
    assert rows
    assert found == expected
    kinds = {stream["kind"] for one in found["recordings"] for stream in one["streams"]}
    assert {"cpu", "thread"} < kinds


def test_error_of_the_thread_is_raised_where_its_result_is_asked_for(
    timelines: Timelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> dict[str, Any]:
        raise OSError("disk full")

    monkeypatch.setattr(embedded, "_recording", fail)
    with (
        embedded.meanwhile(Scope(timelines.con), 1, 8_000_000, timelines) as slices,
        pytest.raises(OSError, match="disk full"),
    ):
        slices()


def test_interrupt_stops_the_thread(timelines: Timelines, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(one: embedded.Recording, budget: int) -> dict[str, Any]:
        one.rows("SELECT max(hash(range)) FROM range(1000000000000)")
        raise AssertionError

    monkeypatch.setattr(embedded, "_recording", endless)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupt_after(0.5, timelines)
    assert time.monotonic() - started < 20


def interrupt_after(seconds: float, timelines: Timelines) -> None:
    with embedded.meanwhile(Scope(timelines.con), 1, 8_000_000, timelines):
        time.sleep(seconds)
        raise KeyboardInterrupt
