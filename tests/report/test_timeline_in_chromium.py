"""The report's timeline in a real browser: pixels, totals, keys, links, Back, and search."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromium
import duckdb
import pytest
import report_database
import report_with_frames
import timeline_page
from prepared_database import prepare
from stored_states import store

from schedlens.report import embedded, page
from schedlens.timeline.prepared import Timelines

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
    ),
]

MS = 1_000_000
# CPU 0 of a million slices, each of 1 to 8 us with a pause of 0 to 4 us behind it.
SLICES = 1_000_000
FIRST = (1 << 32) + 10


def million() -> duckdb.DuckDBPyConnection:
    """Two CPUs with a million slices of two threads of one process."""
    con = duckdb.connect()
    prepare(con)
    store(con)
    con.execute(
        f"""
INSERT INTO cpu_state
SELECT 1, cpu, end_ns - gap - dur, dur, 'thread', {FIRST} + n % 2 FROM (
  SELECT n, n % 2 AS cpu, 1000 + (hash(n) % 7000)::BIGINT AS dur,
    (hash(n + 77) % 4000)::BIGINT AS gap,
    sum(dur + gap) OVER (PARTITION BY n % 2 ORDER BY n)::BIGINT AS end_ns
  FROM range({SLICES}) AS t(n)
)
"""
    )
    end = con.sql("SELECT max(ts + dur) FROM cpu_state").fetchall()[0][0]
    con.execute(
        "INSERT INTO trace (trace_id, label, source, first_ns, duration_ns, schema_version, "
        f"tool_version) VALUES (1, 'million', 'perf', 0, {end}, 1, 'test')"
    )
    con.execute("INSERT INTO process (trace_id, upid, pid, name) VALUES (1, 1, 5, 'game')")
    for number, name in ((10, "Main"), (11, "AI worker")):
        utid = (1 << 32) + number
        con.execute(
            "INSERT INTO thread (trace_id, utid, tid, upid, name, is_idle) "
            f"VALUES (1, {utid}, {number}, 1, '{name}', false)"
        )
        con.execute(
            "INSERT INTO thread_state (trace_id, utid, ts, dur, state, cpu, left_censored, "
            f"right_censored) VALUES (1, {utid}, 0, {end}, 'running', {number - 10}, false, false)"
        )
    return con


@pytest.fixture(scope="module")
def many() -> Iterator[duckdb.DuckDBPyConnection]:
    with million() as con:
        yield con


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    many: duckdb.DuckDBPyConnection,
    built: Path,
    frames_shown: dict[str, Any],
) -> Path:
    """Reports of two recordings, of hostile names, and of a million slices in two sizes."""
    folder = tmp_path_factory.mktemp("timelines")
    shutil.copy(built / "frames.html", folder)
    small = {
        **frames_shown,
        "sections": [one for one in frames_shown["sections"] if one["name"] == "cpu_timeline"],
    }
    timelines = Timelines(many)
    for name, budget in (("million", 100 * MS), ("shares", 400_000)):
        recorded = embedded.payload(many, 1, budget, timelines)
        size = sum(len(one["data"]) for one in recorded["recordings"][0]["streams"])
        assert size < budget
        text = page.page({**small, "timeline": recorded}, name)
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    hostile = report_database.HOSTILE
    with report_database.create(threads=(2, 3), name="sha256", placements=("siblings",)) as con:
        con.execute("UPDATE thread SET name = name || ?", [hostile])
        con.execute("UPDATE process SET name = ?", [hostile])
        con.execute("UPDATE trace SET label = label || ?", [hostile])
        shown = {**small, "timeline": embedded.payload(con, 1)}
    (folder / "hostile.html").write_text(page.page(shown, "hostile"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of the report with frames."""
    with report_with_frames.create() as con:
        yield con


@pytest.fixture
def browser(timeline: chromium.Browser) -> chromium.Browser:
    return timeline


def test_drawn_busy_share_equals_the_database_at_five_zoom_levels(
    browser: chromium.Browser, folder: Path, many: duckdb.DuckDBPyConnection
) -> None:
    browser.open(folder / "million.html")
    end = many.sql("SELECT duration_ns FROM trace").fetchall()[0][0]
    for length in (end, end // 10, 20 * MS, MS, 300_000):
        start = (end - length) // 3
        timeline_page.go(browser, f"recording=1&from={start}&to={start + length}")
        shown = timeline_page.view(browser)
        assert (shown["from"], shown["to"]) == (str(start), str(start + length))
        for cpu in (0, 1):
            busy = many.sql(
                f"SELECT sum(least(ts + dur, {start + length}) - greatest(ts, {start})) "
                f"FROM cpu_state WHERE cpu = {cpu} AND ts < {start + length} "
                f"AND ts + dur > {start}"
            ).fetchall()[0][0]
            drawn = timeline_page.painted(browser, f"CPU {cpu}")
            assert drawn == pytest.approx(float(busy) / length, abs=0.01), length


def test_page_says_where_it_contains_every_slice(browser: chromium.Browser, folder: Path) -> None:
    outside = "document.querySelector('.lane-outside').textContent"
    browser.open(folder / "million.html")
    timeline_page.settle(browser)
    assert browser.evaluate(outside) == "The report contains every slice of this recording."
    browser.open(folder / "shares.html")
    timeline_page.settle(browser)
    assert browser.evaluate(outside) == (
        "This range shows exact shares: open with schedlens serve for every slice."
    )


def test_shares_of_a_small_budget_draw_the_same_time(
    browser: chromium.Browser, folder: Path, many: duckdb.DuckDBPyConnection
) -> None:
    busy = many.sql("SELECT sum(dur) / (2 * max(ts + dur)) FROM cpu_state").fetchall()[0][0]
    browser.open(folder / "shares.html")
    timeline_page.settle(browser)
    drawn = [timeline_page.painted(browser, f"CPU {cpu}") for cpu in (0, 1)]
    assert sum(drawn) / 2 == pytest.approx(busy, abs=0.01)


@pytest.mark.alone
def test_no_interaction_on_a_million_slices_takes_over_100_ms(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "million.html")
    took: dict[str, float] = {}
    for _ in range(3):
        for key in ("Home", "w", "d", "a", "s"):
            timeline_page.press(browser, key)
            last = float(browser.evaluate(f"{timeline_page.CANVAS}.dataset.took"))
            took[key] = min(took.get(key, last), last)
    assert max(took.values()) < 100, took


def test_range_totals_equal_sql_to_the_ns(
    browser: chromium.Browser, folder: Path, con: duckdb.DuckDBPyConnection
) -> None:
    browser.open(folder / "frames.html")
    start, end = 101_234_567, 163_700_001
    timeline_page.go(browser, f"recording=1&from=0&to={300 * MS}&range={start}-{end}")
    rows = timeline_page.table(browser)
    # What ran comes first, and a header sorts the rows.
    assert [row[2].split(":")[0].split(" ")[0] for row in rows][:2] == ["running"] * 2
    browser.evaluate("document.querySelector('.lane-details th:last-child button').click()")
    slices = [int(row[5]) for row in timeline_page.table(browser)]
    assert slices == sorted(slices, reverse=True)
    found: dict[str, int] = {}
    for row in rows:
        state = row[2].split(":")[0].split(" ")[0]
        found[state] = found.get(state, 0) + int(row[4].replace(",", ""))
    expected = dict(
        con.sql(
            f"SELECT state, sum(least(ts + dur, {end}) - greatest(ts, {start}))::BIGINT "
            f"FROM thread_state WHERE ts < {end} AND ts + dur > {start} GROUP BY state"
        ).fetchall()
    )
    assert found == expected


def test_keys_zoom_pan_select_and_follow_slices(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "frames.html")
    timeline_page.go(browser, f"recording=1&from=0&to={300 * MS}")

    def span() -> int:
        shown = timeline_page.view(browser)
        return int(shown["to"]) - int(shown["from"])

    timeline_page.press(browser, "w")
    assert span() == 210 * MS
    timeline_page.press(browser, "d")
    assert int(timeline_page.view(browser)["from"]) == round(45 * MS + 0.15 * 210 * MS)
    timeline_page.press(browser, "a")
    timeline_page.press(browser, "s")
    assert span() == 300 * MS
    timeline_page.press(browser, "Enter")
    first = timeline_page.view(browser)
    assert {"thread", "cpu", "at"} <= set(first)
    timeline_page.press(browser, "ArrowRight")
    second = timeline_page.view(browser)
    assert second["thread"] == first["thread"]
    assert int(second["at"]) > int(first["at"])
    timeline_page.press(browser, "ArrowLeft")
    assert timeline_page.view(browser)["at"] == first["at"]
    timeline_page.press(browser, "f")
    assert span() < 300 * MS
    timeline_page.press(browser, "Escape")
    timeline_page.press(browser, "m")
    assert "range" in timeline_page.view(browser)
    timeline_page.press(browser, "?")
    assert browser.evaluate("document.querySelector('.lane-help').open") is True


def test_link_opens_the_moment_and_back_returns(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "frames.html")
    utid = (1 << 32) + 2003
    timeline_page.go(
        browser, f"recording=1&from={90 * MS}&to={130 * MS}&thread={utid}&at=108010000"
    )
    assert "kworker/3:1" in browser.evaluate(
        "document.querySelector('.lane-details h4').textContent"
    )
    facts = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.slice-facts > div')].map((one) => "
        "[one.querySelector('dt').textContent, one.querySelector('dd').textContent]))"
    )
    assert facts["CPU"] == "3"
    assert facts["Core type"] == "P"
    assert facts["Duration"] == "100 µs"
    assert list(facts) == [
        "Thread", "Process", "State", "Start", "Duration", "CPU", "Core type", "Priority",
        "Ended because", "Sibling ran", "Counters", "Frequency", "Ready before it",
        "Ready time by obstacle", "Ran on the CPU it waited for", "Waited before it", "Woken by",
        "Waker on CPU", "Woken from an interrupt",
    ]  # fmt: skip
    assert not any(re.search(r"null|undefined|NaN|_", value) for value in facts.values()), facts
    panel = browser.evaluate("document.querySelector('.lane-details').textContent")
    assert not panel.endswith("null")
    before = timeline_page.view(browser)
    timeline_page.press(browser, "w")
    assert timeline_page.view(browser)["from"] != before["from"]
    browser.evaluate("history.back()")
    timeline_page.settle(browser)
    shown = timeline_page.view(browser)
    assert (shown["from"], shown["to"]) == (str(90 * MS), str(130 * MS))
    # A reload keeps the view; the page's own anchors are still links to sections.
    browser.send("Page.reload")
    browser.wait("document.documentElement?.dataset.ready === 'yes'")
    timeline_page.settle(browser)
    assert timeline_page.view(browser)["from"] == str(90 * MS)
    legend = browser.evaluate("document.querySelector('.lane-legend').dataset.from")
    assert legend == str(90 * MS)
    timeline_page.go(browser, "frame_time")
    assert browser.evaluate("location.hash") == "#frame_time"


def find(browser: chromium.Browser, text: str) -> str:
    """Types into the timeline's search; what it says."""
    browser.evaluate(
        "(() => { const box = document.querySelector('[aria-label=\"Search threads in the "
        f"timeline\"]'); box.value = {text!r}; box.dispatchEvent(new Event('input')); }})()"
    )
    timeline_page.settle(browser)
    said: str = browser.evaluate("document.querySelector('.lane-matches').textContent")
    return said


def test_search_matches_beginnings_of_words_and_says_if_none(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "million.html")
    timeline_page.settle(browser)
    before = timeline_page.painted(browser, "CPU 1")
    assert find(browser, "AI") == "1 thread matches"
    assert timeline_page.painted(browser, "CPU 1") == pytest.approx(before, abs=0.02)
    assert timeline_page.painted(browser, "CPU 0") < 0.5
    timeline_page.press(browser, "n")
    assert timeline_page.view(browser)["thread"] == str((1 << 32) + 11)
    assert find(browser, "zzz") == "No thread matches “zzz”."
    assert timeline_page.painted(browser, "CPU 0") > 0.5
    assert find(browser, "main, ai") == "2 threads match"


def test_recordings_switch_and_hostile_names_remain_text(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "hostile.html")
    browser.evaluate("window.alert = () => { window.hurt = true; }")
    chooser = "document.querySelector('[aria-label=\"Recording\"]')"
    assert browser.evaluate(f"{chooser}.options.length") == 2
    browser.evaluate(f"{chooser}.value = '2', {chooser}.dispatchEvent(new Event('change'))")
    timeline_page.settle(browser)
    assert timeline_page.view(browser)["recording"] == "2"
    timeline_page.press(browser, "Enter")
    timeline_page.press(browser, "t")
    assert browser.evaluate("document.querySelectorAll('.lanes script, .lanes img').length") == 0
    assert browser.evaluate("window.hurt === undefined") is True
    assert "<script>alert(1)</script>" in browser.evaluate(f"{timeline_page.LANES}.textContent")


def test_lane_names_open_tables_pin_and_collapse(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "frames.html")
    timeline_page.settle(browser)
    button = (
        "[...document.querySelectorAll('.lane-name')].find((one) => /{}/.test(one.textContent))"
    )
    browser.evaluate(f"{button.format('CPU 3')}.click()")
    rows = timeline_page.table(browser)
    assert len(rows) > 10
    assert {row[1] for row in rows} == {"sha256 3", "kworker/3:1"}
    browser.evaluate("document.querySelector('[aria-label=\"Pin CPU 3 P\"]').click()")
    timeline_page.settle(browser)
    assert timeline_page.view(browser)["lanes"] == "*cpu-3"
    first = browser.evaluate("document.querySelector('[aria-label=\"Pin CPU 3 P\"]').ariaPressed")
    assert first == "true"
    browser.evaluate(f"{button.format('CPUs')}.click()")
    timeline_page.settle(browser)
    assert timeline_page.view(browser)["lanes"] == "-cpus,*cpu-3"
    assert browser.evaluate(f"{button.format('CPU 1 P')} === undefined") is True
