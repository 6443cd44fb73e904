"""Selecting a slice shows in which code the thread waited, was woken, and left its CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import chromium
import duckdb
import pytest
import timeline_alone
import timeline_page
from drawn_stacks import MS, database_with_stacks

from schedlens.report import embedded
from schedlens.timeline import slices
from schedlens.timeline.prepared import Timelines

TAKE = ["schedule", "pthread_mutex_lock", "Queue::take", "main"]
RELEASE = ["[libfoo.so]", "Queue::release", "main"]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with database_with_stacks() as database:
        yield database


def utid(con: duckdb.DuckDBPyConnection, name: str) -> int:
    ((number,),) = con.execute("SELECT utid FROM thread WHERE name = ?", [name]).fetchall()
    return int(number)


def test_a_slice_has_the_stacks_of_its_wait_and_of_its_waker(
    con: duckdb.DuckDBPyConnection,
) -> None:
    timelines = Timelines(con)
    found = slices.slice_at(timelines, 1, utid(con, "A"), 7 * MS)
    assert found is not None
    # The switch that ended this slice has no stack.
    assert (found["before_stack"], found["waker_stack"], found["left_stack"]) == (
        TAKE, RELEASE, None,
    )  # fmt: skip
    first = slices.slice_at(timelines, 1, utid(con, "A"), MS)
    assert first is not None
    assert (first["left_stack"], first["before_stack"]) == (TAKE, None)
    # What is copied as SQL returns the stack.
    for name in ("before_stack", "waker_stack"):
        assert len(con.execute(found["sql"][name]).fetchall()) == 1
    timelines.detach()


def test_the_page_contains_the_stacks_of_its_slices(con: duckdb.DuckDBPyConnection) -> None:
    (recording,) = embedded.payload(con, 1)["recordings"]
    kept = recording["overview"]["stacks"]
    assert {tuple(kept["names"][place] for place in one) for one in kept["of"].values()} == {
        tuple(TAKE), tuple(RELEASE),
        # Where samples hit.
        tuple(RELEASE[1:]),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(
    chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
)
def test_the_panel_of_a_selected_slice_shows_its_stacks(
    timeline: chromium.Browser, con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(timeline_alone.html(con, "stacks"), encoding="utf-8")
    timeline.send("Page.navigate", url="about:blank")
    timeline.open(file)
    timeline_page.settle(timeline)

    def facts(at: int) -> dict[str, str]:
        thread = utid(con, "A")
        timeline_page.go(timeline, f"recording=1&from=0&to={10 * MS}&thread={thread}&at={at}")
        read: dict[str, str] = timeline.evaluate(
            "Object.fromEntries([...document.querySelectorAll('.slice-facts > div')].map((one) => "
            "[one.querySelector('dt').textContent, one.querySelector('dd').textContent]))"
        )
        return read

    running = facts(7 * MS)
    assert running["Waited in"] == " ← ".join(TAKE)
    assert running["Woken in"] == " ← ".join(RELEASE)
    assert running["Left its CPU in"] == "not recorded"
    # The wait itself: what it waits in belongs to the slice that ends it.
    assert facts(3 * MS)["Waited in"] == " ← ".join(TAKE)
