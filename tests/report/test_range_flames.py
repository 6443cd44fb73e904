"""The flame graphs of a selected range: from the server, and from the report alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import duckdb
import pytest
import timeline_alone
import timeline_page
from drawn_stacks import MS, database_with_stacks

from schedlens.errors import UnknownNameError
from schedlens.timeline import range_stacks
from schedlens.timeline.prepared import Timelines

TAKE = ["main", "Queue::take", "pthread_mutex_lock", "schedule"]
RELEASE = ["main", "Queue::release", "[libfoo.so]"]
HOSTILE = "<img src=x onerror=alert(1)>\u202e%{value}"


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with database_with_stacks() as database:
        # What names a function comes from the recording.
        database.execute(
            "UPDATE frame_symbol SET symbol = ? WHERE symbol = 'Queue::release'", [HOSTILE]
        )
        yield database


@pytest.fixture
def timelines(con: duckdb.DuckDBPyConnection) -> Iterator[Timelines]:
    made = Timelines(con)
    yield made
    made.detach()


def utid(con: duckdb.DuckDBPyConnection, name: str) -> int:
    ((number,),) = con.execute("SELECT utid FROM thread WHERE name = ?", [name]).fetchall()
    return int(number)


SHOWN = [RELEASE[0], "<img src=x onerror=alert(1)>\\u202e%{value}", RELEASE[2]]


@pytest.mark.parametrize(
    ("kind", "span", "thread", "rows"),
    [
        # A waits in take from 2 to 4 ms, and without a stack from 8 to 9 ms, as B does from 6 ms.
        ("waiting", (3, 10), None, [["A", None, MS], ["A", TAKE, MS], ["B", None, 4 * MS]]),
        ("waiting", (3, 10), "A", [["A", None, MS], ["A", TAKE, MS]]),
        ("waiting", (4, 6), "B", []),
        # It is ready from 4 to 6 ms.
        ("ready", (5, 7), "A", [["A", TAKE, MS]]),
        # B wakes A at 4 ms, and is shown if A is selected.
        ("wakeups", (3, 5), "A", [["B", SHOWN, 1]]),
        ("wakeups", (3, 5), "B", []),
        ("wakeups", (5, 7), None, []),
        # A is sampled at 1 ms, B at 4 ms, and at 5 ms without a stack.
        ("samples", (0, 2), None, [["A", SHOWN[:2], 1]]),
        ("samples", (4, 5), "B", [["B", SHOWN[:2], 1], ["B", None, 1]]),
    ],
)
def test_a_range_has_the_stacks_in_it(
    con: duckdb.DuckDBPyConnection, timelines: Timelines, kind: str, span: tuple[int, int],
    thread: str | None, rows: list[list[Any]],
) -> None:  # fmt: skip
    chosen = None if thread is None else utid(con, thread)
    found = range_stacks.of_range(timelines, 1, (span[0] * MS, span[1] * MS), kind, chosen)
    assert sorted(found["rows"], key=str) == sorted(rows, key=str)
    assert found["rest"] == 0
    # What is copied as SQL returns the same.
    assert sum(row[2] for row in con.execute(found["sql"]).fetchall()) == sum(r[2] for r in rows)


def test_stacks_beyond_the_first_are_added_up(
    timelines: Timelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_stacks, "MOST_ROWS", 1)
    found = range_stacks.of_range(timelines, 1, (0, 10 * MS), "samples")
    assert (len(found["rows"]), found["rows"][0][2], found["rest"]) == (1, 1, 2)


def test_a_recording_that_does_not_exist_is_named(timelines: Timelines) -> None:
    with pytest.raises(UnknownNameError):
        range_stacks.of_range(timelines, 9, (0, MS), "samples")


def drawn(browser: chromium.Browser) -> dict[str, Any]:
    """Function or thread to value, of the flame graph in the panel; depth-first names joined."""
    found: dict[str, Any] = browser.evaluate(
        "(() => { const { ids, labels, parents, values } = "
        "document.querySelector('.lane-flame .plot').data[0]; "
        "const path = (i) => (parents[i] === '' ? labels[i] : "
        "path(ids.indexOf(parents[i])) + ';' + labels[i]); "
        "return Object.fromEntries(ids.map((_, i) => [path(i), values[i]])); })()"
    )
    return found


def expected(found: dict[str, Any], size: float) -> dict[str, float]:
    """The same of an answer of the server."""
    sums: dict[str, float] = {"all threads": 0.0}
    for thread, functions, weight in found["rows"]:
        path = "all threads"
        sums[path] += weight / size
        for label in (thread, *(functions or ["[no stack]"])):
            escaped = label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            path += f";{escaped}"
            sums[path] = sums.get(path, 0.0) + weight / size
    return sums


@pytest.mark.slow
@pytest.mark.skipif(
    chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
)
def test_the_report_draws_what_the_server_answers(
    timeline: chromium.Browser, con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    ranges = ((0, 10 * MS), (3 * MS, 7 * MS))
    of_server = Timelines(con)
    answers = {
        (span, kind): range_stacks.of_range(of_server, 1, span, kind)
        for span in ranges
        for kind in range_stacks.KINDS
    }
    of_server.detach()
    file = tmp_path / "report.html"
    file.write_text(timeline_alone.html(con, "flames"), encoding="utf-8")
    timeline.send("Page.navigate", url="about:blank")
    timeline.open(file)
    timeline_page.settle(timeline)
    for span in ranges:
        fragment = f"recording=1&from=0&to={10 * MS}&range={span[0]}-{span[1]}"
        timeline_page.go(timeline, fragment)
        for kind in range_stacks.KINDS:
            timeline.evaluate(f"document.querySelector('.lane-flames [data-kind={kind}]').click()")
            timeline.wait(f"document.querySelector('.lane-flame').dataset.kind === '{kind}'")
            timeline_page.settle(timeline)
            size = 1e6 if kind in ("waiting", "ready") else 1
            assert drawn(timeline) == expected(answers[span, kind], size), (kind, span)
    # Names of the recording are text, and the search finds them.
    assert timeline.evaluate("document.querySelectorAll('.lane-flame img').length") == 0
    timeline.evaluate(
        "(() => { const box = document.querySelector('.lane-flame input'); box.value = 'IMG SRC'; "
        "box.dispatchEvent(new Event('input')); })()"
    )
    timeline.wait("document.querySelector('.lane-flame .said').textContent !== ''")
    said = timeline.evaluate("document.querySelector('.lane-flame .said').textContent")
    # The one wakeup in the range is in this function.
    assert said == "1 matching function, 100.0 % of the whole"
    lit = timeline.evaluate(
        "(() => { const { labels, marker } = document.querySelector('.lane-flame .plot').data[0]; "
        "const pale = getComputedStyle(document.documentElement).getPropertyValue('--pale').trim();"
        " return labels.filter((_, i) => marker.colors[i] !== pale); })()"
    )
    assert lit == ["&lt;img src=x onerror=alert(1)&gt;\\u202e%{value}"]
