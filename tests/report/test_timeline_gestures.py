"""The report's timeline by pointer and by wakeup, and what it marks on the lanes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import chromium
import duckdb
import marked_timeline
import pointer_input
import pytest
import timeline_alone
import timeline_page

from schedlens.report import moment, page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
    ),
]

MS = marked_timeline.MS
A, B, C = (marked_timeline.BASE + number for number in range(3))
CHAINED = f"recording=1&from={48 * MS}&to={56 * MS}&lanes=.process-{(1 << 32) + 1}"


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with marked_timeline.create() as con:
        con.execute(
            f"UPDATE finding SET utid = {B}, start_ns = {48 * MS}, end_ns = {56 * MS} "
            "WHERE kind = 'stutter'"
        )
        yield con


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, con: duckdb.DuckDBPyConnection) -> Path:
    """A page with the timeline alone."""
    file = tmp_path_factory.mktemp("marked") / "report.html"
    file.write_text(timeline_alone.html(con, "marked"), encoding="utf-8")
    return file


@pytest.fixture
def browser(timeline: chromium.Browser, report: Path) -> chromium.Browser:
    """The page, as it opens."""
    timeline.send("Page.navigate", url="about:blank")
    timeline.open(report)
    timeline_page.settle(timeline)
    return timeline


def span(browser: chromium.Browser) -> tuple[int, int]:
    shown = timeline_page.view(browser)
    return int(shown["from"]), int(shown["to"])


def labels(browser: chromium.Browser) -> list[str]:
    """The names of the visible lanes, from the top."""
    found: list[str] = browser.evaluate(
        "[...document.querySelectorAll('.lane-label')].sort((x, y) => "
        "parseFloat(x.style.top) - parseFloat(y.style.top)).map((one) => "
        "one.querySelector('.lane-name').textContent)"
    )
    return found


def near(browser: chromium.Browser, label: str, token: str, begin: int, end: int) -> float:
    """The share of a lane's pixels in a range that are nearly of a color of the page."""
    where = timeline_page.lane(browser, label)
    first, last = span(browser)
    share: float = browser.evaluate(
        f"(() => {{ const canvas = {timeline_page.CANVAS}; "
        "const ratio = canvas.width / canvas.clientWidth; "
        f"const x = (ns) => Math.round(canvas.width * (ns - {first}) / ({last} - {first})); "
        f"const [left, right] = [x({begin}) + 2, x({end}) - 2]; "
        "const data = canvas.getContext('2d').getImageData("
        f"left, Math.round({where['top']} * ratio), right - left, "
        f"Math.round({where['height']} * ratio)).data; "
        "const text = getComputedStyle(document.documentElement)"
        f".getPropertyValue('--{token}').trim(); "
        "const color = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)); let found = 0; "
        "for (let at = 0; at < data.length; at += 4) "
        "if (Math.hypot(...color.map((value, i) => value - data[at + i])) < 60) found += 1; "
        "return found / (data.length / 4); })()"
    )
    return share


def test_wheel_and_pinch_zoom_around_the_pointer(browser: chromium.Browser) -> None:
    timeline_page.go(browser, f"recording=1&from={100 * MS}&to={200 * MS}")
    at = pointer_input.place(browser, 0.25, "CPU 1 P")
    pointer_input.wheel(browser, at, -240)
    first, last = span(browser)
    length = last - first
    assert length < 80 * MS
    assert first + length / 4 == pytest.approx(125 * MS, abs=length / 200)
    pointer_input.wheel(browser, at, 100, pointer_input.SHIFT)
    assert span(browser)[1] - span(browser)[0] == pytest.approx(length, abs=2)
    assert span(browser)[0] > first
    timeline_page.go(browser, f"recording=1&from={100 * MS}&to={200 * MS}")
    pointer_input.pinch(browser, at, 100, 300)
    first, last = span(browser)
    assert last - first == pytest.approx(100 * MS / 3, rel=0.02)
    assert first + (last - first) / 4 == pytest.approx(125 * MS, abs=(last - first) / 100)


def test_drag_moves_and_selects_with_shift_or_on_the_ruler(browser: chromium.Browser) -> None:
    start = f"recording=1&from={100 * MS}&to={200 * MS}"
    timeline_page.go(browser, start)
    left, right = (pointer_input.place(browser, share, "CPU 1 P") for share in (0.25, 0.5))
    pointer_input.drag(browser, right, left)
    first, last = span(browser)
    assert first == pytest.approx(125 * MS, abs=MS / 2)
    assert last - first == 100 * MS
    for lane, keys in (("CPU 1 P", pointer_input.SHIFT), (None, 0)):
        timeline_page.go(browser, start)
        left, right = (pointer_input.place(browser, share, lane) for share in (0.25, 0.5))
        pointer_input.drag(browser, left, right, keys)
        chosen = [int(ns) for ns in timeline_page.view(browser)["range"].split("-")]
        assert chosen == [pytest.approx(ms * MS, abs=MS / 2) for ms in (125, 150)]
        assert span(browser) == (100 * MS, 200 * MS)
        assert timeline_page.table(browser)


def test_brackets_follow_wakeups_and_arrows_show_the_chain(browser: chromium.Browser) -> None:
    timeline_page.go(browser, f"{CHAINED}&filter=chained")
    before = near(browser, "chained B (901)", "ink", 48 * MS, 56 * MS)
    timeline_page.go(browser, f"{CHAINED}&filter=chained&thread={C}&at={52 * MS}")
    assert near(browser, "chained B (901)", "ink", 48 * MS, 56 * MS) > before + 0.002
    chain = browser.evaluate("document.querySelector('.chain').textContent")
    assert re.sub(r" \(.*?\)", "", chain) == (
        "Wakeup chain: interrupt → chained A → chained B → chained C"
    )
    facts = browser.evaluate("document.querySelector('.slice-facts').textContent")
    assert "Frequency3,200 MHz" in facts
    assert "Counterscycles 3,000,000" in facts
    for key, utid in (("[", B), ("[", A), ("]", B), ("]", C)):
        timeline_page.press(browser, key)
        assert timeline_page.view(browser)["thread"] == str(utid), key
    timeline_page.go(browser, f"{CHAINED}&thread={A}&at={50 * MS}")
    facts = browser.evaluate("document.querySelector('.slice-facts').textContent")
    assert "Woken from an interruptyes" in facts


def test_chain_ends_at_the_start_of_the_frame(browser: chromium.Browser) -> None:
    timeline_page.go(
        browser, f"recording=1&from={10 * MS}&to={40 * MS}&thread={C + 2}&at={31 * MS + 1000}"
    )
    chain = browser.evaluate("document.querySelector('.chain').textContent")
    # What woke `early` was before the frame.
    assert re.sub(r" \(.*?\)", "", chain) == "Wakeup chain: early → late"


def test_filter_and_sort_choose_the_lanes(browser: chromium.Browser) -> None:
    timeline_page.go(browser, CHAINED)
    box = "document.querySelector('[aria-label=\"Filter lanes by name\"]')"
    browser.evaluate(f"{box}.value = 'chained', {box}.dispatchEvent(new Event('input'))")
    timeline_page.settle(browser)
    threads = [name for name in labels(browser) if re.search(r" \(\d+\)$", name)]
    assert [name for name in threads if not name.startswith(("▾", "▸"))] == [
        "chained A (900)", "chained B (901)", "chained C (902)",
    ]  # fmt: skip
    assert not any(name.startswith("CPU ") for name in labels(browser))
    sort = "document.querySelector('[aria-label=\"Threads by\"]')"
    browser.evaluate(f"{sort}.value = 'ready', {sort}.dispatchEvent(new Event('change'))")
    timeline_page.settle(browser)
    assert [name for name in labels(browser) if name.startswith("chained")] == [
        "chained B (901)", "chained C (902)", "chained A (900)",
    ]  # fmt: skip
    assert timeline_page.view(browser)["filter"] == "chained"


def test_finding_sorts_every_thread_and_its_link_keeps_the_order(
    browser: chromium.Browser,
) -> None:
    choice = "document.querySelector('[aria-label=\"Go to a finding\"]')"
    number = browser.evaluate(
        f"[...{choice}.options].find((one) => one.textContent.includes('stutter')).value"
    )
    browser.evaluate(f"{choice}.value = {number!r}, {choice}.dispatchEvent(new Event('change'))")
    timeline_page.settle(browser)
    costs = browser.evaluate(
        f"({timeline_page.LANES}, document.querySelector('[aria-label=\"Threads by\"]').value)"
    )
    assert costs == "cost"
    shown = timeline_page.view(browser)
    assert shown["sort"] == "cost"
    order = labels(browser)
    browser.send("Page.reload")
    browser.wait("document.documentElement?.dataset.ready === 'yes'")
    timeline_page.settle(browser)
    assert timeline_page.view(browser)["finding"] == shown["finding"]
    assert labels(browser) == order


def test_finding_opens_with_frames_and_thread_above_and_its_wait_selected(
    browser: chromium.Browser, con: duckdb.DuckDBPyConnection
) -> None:
    finding = con.sql("FROM finding WHERE kind = 'stutter'").to_arrow_table().to_pylist()[0]
    found = moment.link(page.chosen_view(con, None, None), finding)
    assert found is not None
    timeline_page.go(browser, found["href"].removeprefix("#"))
    shown = timeline_page.view(browser)
    pinned = [name for name in shown["lanes"].split(",") if name.startswith("*")]
    assert pinned == ["*frame-0", "*frame-1", f"*thread-{B}"]
    # Not what ran when the range began, but what the finding is about.
    assert (shown["thread"], shown["at"]) == (str(B), str(50 * MS + MS // 2))
    assert "ready" in browser.evaluate("document.querySelector('.slice-facts').textContent")
    above = ["frames of game", "frames of viewer", "chained B (901)"]
    assert labels(browser)[:3] == above
    # They remain in view while the others scroll.
    for _ in range(12):
        timeline_page.press(browser, "ArrowDown")
    assert labels(browser)[:3] == above
    assert "CPU 0 P" not in labels(browser)


def test_time_before_a_slice_shows_what_it_waited_for(browser: chromium.Browser) -> None:
    timeline_page.go(browser, f"{CHAINED}&thread={B}&at={51 * MS - 1000}")
    facts = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.slice-facts > div')].map((one) => "
        "[one.querySelector('dt').textContent, one.querySelector('dd').textContent]))"
    )
    assert facts["State"].startswith("ready")
    assert facts["Duration"] == "500 µs"
    assert facts["Ran next"] == "CPU 4 from 51.000000 ms"
    assert facts["Woken by"] == "chained A (900)"
    timeline_page.press(browser, "[")
    assert timeline_page.view(browser)["thread"] == str(A)


def test_pointer_names_the_slice_or_that_a_cpu_is_idle_or_parked(
    browser: chromium.Browser,
) -> None:
    hint = "document.querySelector('.lane-hint').textContent"
    timeline_page.go(browser, f"recording=1&from={100 * MS}&to={200 * MS}")
    for lane, share, said in (("CPU 3 P", 0.505, "parked"), ("CPU 5 P", 0.505, "idle")):
        x, y = pointer_input.place(browser, share, lane)
        browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        timeline_page.settle(browser)
        words = browser.evaluate(hint)
        assert words.startswith(f"{lane}, 150.")
        assert re.search(rf"\b{said} \d+ %$|, \d+", words), words
    timeline_page.go(browser, f"recording=1&from={50 * MS}&to={51 * MS}")
    x, y = pointer_input.place(browser, 0.5, "CPU 4 P")
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    timeline_page.settle(browser)
    assert browser.evaluate(hint).endswith(": chained A, 1 ms from 50.000000 ms")


def test_worst_waits_say_why(browser: chromium.Browser) -> None:
    timeline_page.go(browser, f"{CHAINED}&thread={B}&at={51 * MS}")
    browser.evaluate(
        "[...document.querySelectorAll('.lane-details button')]"
        ".find((one) => one.textContent.startsWith('Worst waits')).click()"
    )
    timeline_page.settle(browser)
    start, state, why, length = timeline_page.table(browser)[0]
    assert (start, state, length) == ("50.500000 ms", "ready", "500,000")
    assert why


def test_lanes_print_light_and_as_wide_as_the_page(browser: chromium.Browser) -> None:
    corner = (
        f"[...{timeline_page.CANVAS}.getContext('2d').getImageData(4, 40, 1, 1).data].slice(0, 3)"
    )
    browser.evaluate("document.documentElement.dataset.theme = 'dark'")
    timeline_page.settle(browser)
    dark = browser.evaluate(corner)
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    light = browser.evaluate(corner)
    width = browser.evaluate(f"{timeline_page.CANVAS}.width")
    browser.evaluate("window.dispatchEvent(new Event('afterprint'))")
    timeline_page.settle(browser)
    assert max(dark) < 100
    assert min(light) > 200
    assert width == 2 * (690 - 121)
    assert browser.evaluate(corner) == dark
    browser.evaluate("document.documentElement.dataset.theme = 'light'")


def test_counters_and_frequencies_have_labels_of_their_own(browser: chromium.Browser) -> None:
    # The first counter and the frequency of CPU 1 have the same number.
    timeline_page.go(browser, f"{CHAINED}&filter=cycles,frequency")
    assert [name for name in labels(browser) if name.startswith(("cycles", "frequency"))] == [
        "cycles of CPU 4", "frequency of CPU 1", "frequency of CPU 4",
    ]  # fmt: skip
    browser.evaluate("document.querySelector('[aria-label=\"Pin frequency of CPU 1\"]').click()")
    timeline_page.settle(browser)
    assert labels(browser)[0] == "frequency of CPU 1"
    assert "cycles of CPU 4" in labels(browser)


def test_frames_of_each_process_have_a_lane(browser: chromium.Browser) -> None:
    assert labels(browser)[:3] == ["▾ Frames", "frames of game", "frames of viewer"]


def test_parked_offline_and_lost_time_are_drawn(browser: chromium.Browser) -> None:
    timeline_page.go(browser, f"recording=1&from=0&to={300 * MS}")
    assert near(browser, "CPU 3 P", "purple", 110 * MS, 190 * MS) > 0.02
    assert near(browser, "CPU 3 P", "purple", 10 * MS, 90 * MS) < 0.005
    assert near(browser, "CPU 4 P", "red", 70 * MS, 90 * MS) > 0.1
    assert near(browser, "CPU 4 P", "red", 100 * MS, 290 * MS) < 0.005
    # Offline is hatched: its lines are of no color of a process, and idle has none.
    assert near(browser, "CPU 6 E", "pale", 30 * MS, 40 * MS) > 0.9
    assert 0.2 < near(browser, "CPU 7 E", "pale", 30 * MS, 40 * MS) < 0.9


def test_slice_copies_as_sql_and_markdown(
    browser: chromium.Browser, con: duckdb.DuckDBPyConnection
) -> None:
    browser.evaluate(
        "Object.defineProperty(navigator, 'clipboard', "
        "{ value: { writeText: async (text) => { window.copied = text; } } })"
    )
    timeline_page.go(browser, f"{CHAINED}&thread={C}&at={52 * MS}")
    copied = {}
    for name in ("SQL", "Markdown"):
        browser.evaluate(
            "window.copied = undefined, [...document.querySelectorAll('.lane-details button')]"
            f".find((one) => one.textContent === 'Copy as {name}').click()"
        )
        browser.wait("window.copied !== undefined")
        copied[name] = browser.evaluate("window.copied")
    rows = con.sql(copied["SQL"].rstrip(";")).to_arrow_table().to_pylist()
    assert [(row["utid"], row["ts"]) for row in rows] == [(C, 52 * MS)]
    lines = copied["Markdown"].split("\n")
    assert lines[:2] == ["| Fact | Value |", "| --- | --- |"]
    assert "| CPU | 4 |" in lines


def test_reduced_motion_scrolls_without_animation(browser: chromium.Browser) -> None:
    scroll = "getComputedStyle(document.documentElement).scrollBehavior"
    found = []
    for wish in ("no-preference", "reduce"):
        browser.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-reduced-motion", "value": wish}],
        )
        found.append(browser.evaluate(scroll))
    browser.send("Emulation.setEmulatedMedia", features=[])
    assert found == ["auto", "auto"]
    moving = browser.evaluate(
        "[...document.querySelectorAll('*')].filter((one) => { const style = "
        "getComputedStyle(one); return style.animationName !== 'none'; }).length"
    )
    assert moving == 0
