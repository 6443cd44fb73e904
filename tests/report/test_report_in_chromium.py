"""The report in a real browser: complete, silent, inert to hostile names, usable by keyboard."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import chromium
import pytest
import report_database
import timeline_page

from schedlens.report import page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
    ),
]


@pytest.fixture(scope="module")
def folder(built: Path) -> Path:
    """Four reports: plain, with hostile names, of 256 CPUs, and with frames."""
    hostile = report_database.HOSTILE + "x" * 10_000
    wide = report_database.Machine(cores=128, packages=2, cores_per_llc=8)
    for name, con in (
        ("hostile", report_database.create(threads=(14,), name=hostile, placements=("siblings",))),
        ("wide", report_database.create(machine=wide, threads=(160,), placements=("default",))),
    ):
        with con:
            if name == "hostile":
                con.execute("UPDATE trace SET host = ?, label = label || ?", [hostile, hostile])
                con.execute("UPDATE process SET name = ?", [hostile])
                con.execute("UPDATE finding SET title = ?, detail = ?, advice = ?", [hostile] * 3)
            page.write(con, built / f"{name}.html")
    return built


def states(browser: chromium.Browser) -> list[list[Any]]:
    """State of each figure, how many of its traces are drawn, and how many it has."""
    found: list[list[Any]] = browser.evaluate(
        "[...document.querySelectorAll('.plot')].map((p) => [p.dataset.state, "
        "p.querySelectorAll('.barlayer > .trace, .scatterlayer > .trace, .heatmaplayer image')"
        ".length, (p.data || []).length])"
    )
    return found


def all_drawn(found: list[list[Any]], figures: int) -> bool:
    """Whether this many figures are drawn, each with all of its traces."""
    return len(found) == figures and all(
        state == "drawn" and drawn == traces >= 1 for state, drawn, traces in found
    )


@pytest.mark.parametrize("name", ["plain", "hostile", "wide", "frames"])
def test_every_figure_is_drawn_without_console_errors(
    browser: chromium.Browser, folder: Path, name: str
) -> None:
    browser.open(folder / f"{name}.html")
    before = states(browser)
    browser.evaluate(chromium.DRAW_ALL)
    figures = browser.evaluate("document.querySelectorAll('figure:not(.verdict-plot)').length")
    maps = browser.evaluate("document.querySelectorAll('figure[data-kind=topology]').length")
    assert maps == 1
    assert all_drawn(states(browser), figures - 2), states(browser)
    assert ["waiting", 0, 0] in before
    assert browser.complaints == []
    assert {url.split(":", 1)[0] for url in browser.requests} == {"file", "data"}
    # The page is never wider than a laptop's window.
    assert browser.evaluate("document.documentElement.scrollWidth") == 1280


def test_axis_numbers_are_written_in_full(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "wide.html")
    browser.evaluate(chromium.DRAW_ALL)
    ticks = browser.evaluate(
        "[...document.querySelectorAll('#avoidable_sharing .xtick text')].map((t) => t.textContent)"
    )
    # 45k ms is not how to write 45,000 ms.
    assert any(re.fullmatch(r"[1-9]\d,000", tick) for tick in ticks), ticks
    assert [tick for tick in ticks if re.search(r"[a-zµ]", tick)] == []


def test_machine_map_has_a_box_per_cpu(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "wide.html")
    assert browser.evaluate("document.querySelectorAll('.cpu').length") == 256
    assert browser.evaluate("document.querySelectorAll('.core').length") == 128
    assert browser.evaluate("document.querySelectorAll('.llc').length") == 16
    assert browser.evaluate("document.querySelectorAll('.package').length") == 2


def test_hostile_names_are_shown_as_text(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "hostile.html")
    browser.evaluate("window.alert = () => { window.hurt = true; }")
    browser.evaluate(chromium.DRAW_ALL)
    assert browser.evaluate("window.hurt === undefined") is True
    assert browser.evaluate("document.querySelectorAll('main script, main img, svg a').length") == 0
    text = browser.evaluate("document.body.textContent")
    assert "<script>alert(1)</script>\"'`&<img src=x onerror=alert(2)>\\u202e" in text
    assert "\u202e" not in text
    label = browser.evaluate(
        "[...document.querySelectorAll('#thread_summary .ytick text')].map((t) => t.textContent)"
    )
    assert any(line.startswith("<script>alert(1)</sc…") for line in label)


def test_printed_page_has_every_figure(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "plain.html")
    before = states(browser)
    assert ["waiting", 0, 0] in before
    pdf = browser.pdf()
    assert pdf.startswith(b"%PDF-")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 40
    assert all_drawn(states(browser), len(before)), states(browser)
    assert browser.complaints == []
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    assert sum(len(inflated(stream)) for stream in streams) > 100_000
    # Back on the screen, figures are as wide as their box again.
    widths = browser.evaluate(
        "[...document.querySelectorAll('.plot')].map((p) => "
        "p.querySelector('svg.main-svg').clientWidth - p.clientWidth)"
    )
    assert widths == [0] * len(widths)


def inflated(stream: bytes) -> bytes:
    """A stream of the PDF, unpacked where it is packed."""
    try:
        return zlib.decompressobj().decompress(stream)
    except zlib.error:
        return stream


def column(browser: chromium.Browser, table: str, index: int) -> list[str]:
    """The cells of a table's column as shown."""
    cells: list[str] = browser.evaluate(
        f"[...document.querySelector('{table} tbody').rows]"
        f".map((r) => r.cells[{index}].textContent)"
    )
    return cells


def test_tables_sort_by_keyboard_and_filter(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "plain.html")
    browser.evaluate(chromium.OPEN_ALL)
    table = "#thread_summary .answer"
    headers = browser.evaluate(
        f"[...document.querySelectorAll('{table} thead')[0].querySelectorAll('th')]"
        ".map((h) => h.textContent)"
    )
    tid = headers.index("TID")
    browser.evaluate(
        f"document.querySelector('{table} thead').querySelectorAll('th button')[{tid}].focus()"
    )
    browser.key("Enter")
    falling = column(browser, table, tid)
    assert [int(cell) for cell in falling] == sorted(map(int, falling), reverse=True)
    assert falling[0] == "114"
    browser.key("Enter")
    assert column(browser, table, tid)[:2] == ["20", "21"]
    assert (
        browser.evaluate(
            f"document.querySelector('{table} thead').querySelectorAll('th')[{tid}].ariaSort"
        )
        == "ascending"
    )
    browser.evaluate(
        f"(() => {{ const box = document.querySelector('{table} input'); box.value = 'kworker/7'; "
        "box.dispatchEvent(new Event('input')); })()"
    )
    assert column(browser, table, headers.index("thread")) == ["kworker/7:1"]


PLOTS = "[...document.querySelectorAll('.over-time .plot')]"
# Of the report with frames: in the timeline frames, parked CPUs, and how many were busy; frames;
# kinds of core and threads; running and ready by priority; frames, parked CPUs and threads.
TIME_SECTIONS = [
    *["cpu_timeline"] * 3, "frame_time", *["core_choice"] * 2, *["priority_order"] * 2,
    *["parking"] * 3,
]  # fmt: skip
TIME_FIGURE_COUNT = len(TIME_SECTIONS)


def ranges(browser: chromium.Browser) -> list[list[float]]:
    """The range of the time axis of each figure on it, in ms."""
    found: list[list[float]] = browser.evaluate(
        f"{PLOTS}.filter((p) => p.dataset.state === 'drawn').map((p) => p._fullLayout.xaxis.range)"
    )
    return found


def test_zoom_applies_to_all_figures_of_the_same_time(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "frames.html")
    # Figures drawn later use the current range.
    browser.evaluate("document.querySelector('#frame_time').scrollIntoView()")
    browser.wait("document.querySelector('#frame_time .plot').dataset.state === 'drawn'")
    browser.evaluate("document.querySelector('#frame_time [aria-label=\"Zoom in\"]').click()")
    browser.evaluate(chromium.DRAW_ALL)
    assert browser.evaluate(f"{PLOTS}.map((p) => p.closest('section').id)") == TIME_SECTIONS
    assert ranges(browser) == [[80, 220]] * TIME_FIGURE_COUNT
    places = browser.evaluate(
        f"{PLOTS}.map((p) => [p.getBoundingClientRect().left + p._fullLayout._size.l, "
        "p._fullLayout._size.w])"
    )
    assert places == [places[0]] * TIME_FIGURE_COUNT
    # One of each kind.
    for dragged in (0, 2, 5, 10):
        begin = 100 + dragged
        browser.evaluate(
            f"void Plotly.relayout({PLOTS}[{dragged}], "
            f"{{'xaxis.range[0]': {begin}, 'xaxis.range[1]': 140}})"
        )
        browser.wait(f"{PLOTS}.every((p) => p._fullLayout.xaxis.range[0] === {begin})")
        assert ranges(browser) == [[begin, 140]] * TIME_FIGURE_COUNT
    browser.evaluate(f"void Plotly.relayout({PLOTS}[4], {{'xaxis.autorange': true}})")
    browser.wait(f"{PLOTS}.every((p) => p._fullLayout.xaxis.range[0] === 10)")
    assert ranges(browser) == [[10, 290]] * TIME_FIGURE_COUNT
    browser.evaluate(
        "document.querySelector('#cpu_timeline [aria-label=\"Go to the next stutter\"]').click()"
    )
    assert ranges(browser) == [[30, 190]] * TIME_FIGURE_COUNT
    # The lanes show the same range, and the figures follow them; both begin at the same place.
    timeline_page.settle(browser)
    shown = timeline_page.view(browser)
    assert (shown["from"], shown["to"]) == ("30000000", "190000000")
    timeline_page.go(browser, "recording=1&from=50000000&to=150000000")
    browser.wait(f"{PLOTS}.every((p) => p._fullLayout.xaxis.range[0] === 50)")
    assert ranges(browser) == [[50, 150]] * TIME_FIGURE_COUNT
    lanes = browser.evaluate(
        f"(() => {{ const box = {timeline_page.CANVAS}.getBoundingClientRect(); "
        "return [box.left, box.width]; })()"
    )
    assert places[0] == pytest.approx(lanes, abs=2)
    assert browser.complaints == []


def test_figures_over_time_shade_the_stutter(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "frames.html")
    browser.evaluate(chromium.DRAW_ALL)
    bands = browser.evaluate(f"{PLOTS}.map((p) => p.layout.shapes.filter((s) => s.type === 'rect')"
                             ".map((s) => [s.x0, s.x1]))")  # fmt: skip
    assert bands == [[[90, 130]]] * TIME_FIGURE_COUNT
    # Lines at 6 P cores, 10 cores, 16 logical CPUs.
    limits = browser.evaluate(
        f"{PLOTS}[2].layout.shapes.filter((s) => s.type === 'line').map((s) => s.y0)"
    )
    assert limits == [6, 10, 16]


def search(browser: chromium.Browser, text: str) -> None:
    """Types into the search for threads and waits until it is done."""
    browser.evaluate(
        "(() => { const box = document.getElementById('threads'); "
        f"box.value = {text!r}; box.dispatchEvent(new Event('input')); }})()"
    )
    wanted = "yes" if text else "no"
    browser.wait(f"document.documentElement.dataset.searching === '{wanted}'")
    browser.evaluate("new Promise((done) => setTimeout(done, 200))")


def test_search_narrows_timeline_and_thread_tables(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "plain.html")
    browser.evaluate(chromium.DRAW_ALL)
    table = "#thread_summary .answer"
    headers = browser.evaluate(
        f"[...document.querySelectorAll('{table} thead')[0].querySelectorAll('th')]"
        ".map((h) => h.textContent)"
    )
    thread = headers.index("thread")
    others = "document.querySelector('#concurrency tbody').rows.length"
    rows = browser.evaluate(others)
    before = column(browser, table, thread)
    search(browser, "KWORKER/7:")
    assert column(browser, table, thread) == ["kworker/7:1"]
    assert browser.evaluate("document.getElementById('matches').textContent").startswith(
        "1 thread in the timeline, "
    )
    # A section that is folded says that it has matches.
    noted = "document.querySelector('#thread_summary .hits').textContent"
    assert re.fullmatch(r"\d+ matching rows?", browser.evaluate(noted))
    # Tables without threads are unchanged.
    assert browser.evaluate(others) == rows
    search(browser, "kworker/7:, kworker/8:")
    assert sorted(column(browser, table, thread)) == ["kworker/7:1", "kworker/8:1"]
    search(browser, "")
    assert column(browser, table, thread) == before
    assert browser.evaluate("document.getElementById('matches').textContent") == ""
    assert browser.evaluate(noted) == ""
    assert browser.complaints == []


def test_search_narrows_bars_and_thread_states(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "plain.html")
    browser.evaluate(chromium.DRAW_ALL)
    bars = "document.querySelector('#thread_summary .plot')"
    labels = f"[...new Set({bars}.data[0].y)]"
    before = browser.evaluate(labels)
    assert len(before) == 20
    heights = [browser.evaluate(f"{bars}._fullLayout.height")]
    states = "document.querySelector('#core_choice .over-time:last-of-type .plot')"
    # The longest-running threads are shown; the match may be far below them.
    hidden = browser.evaluate(
        "[...document.querySelectorAll('#thread_summary tbody tr')].map((r) => "
        "r.cells[0].textContent)"
    )
    assert "kworker/19:1 (39)" not in before
    assert "kworker/19:1" not in hidden
    search(browser, "kworker/19:, kworker/7:")
    assert sorted(browser.evaluate(labels)) == ["kworker/19:1 (39)", "kworker/7:1 (27)"]
    assert browser.evaluate(
        "document.querySelector('#thread_summary .narrowed').textContent"
    ).startswith("Narrowed to 2 of ")
    heights.append(browser.evaluate(f"{bars}._fullLayout.height"))
    assert heights[0] > 3 * heights[1]
    search(browser, "nobody has this name")
    assert browser.evaluate(f"{bars}.hidden") is True
    assert (
        browser.evaluate("document.querySelector('#thread_summary .narrowed').textContent")
        == "No bar here matches the search."
    )
    search(browser, "")
    assert browser.evaluate(labels) == before
    assert browser.evaluate(f"{bars}._fullLayout.height") == heights[0]
    assert browser.evaluate(f"{states} === null || {states}.dataset.state === 'drawn'") is True
    assert browser.complaints == []


def test_finding_copies_as_markdown_with_cost_evidence_and_sql(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "frames.html")
    browser.evaluate(
        "Object.defineProperty(navigator, 'clipboard', "
        "{ value: { writeText: async (text) => { window.copied = text; } } })"
    )
    card = "document.querySelector('[id^=finding-][data-severity=critical]')"
    browser.evaluate(f"{card}.querySelector('.then button').click()")
    browser.wait("window.copied !== undefined")
    parts = browser.evaluate("window.copied").split("\n\n")
    assert parts[0].startswith("**Critical: 1 stutter in 16 frames cost 24\u00a0ms")
    assert parts[2] == (
        "Cost: 24 ms; 8.6 % of the window; 1.5 ms a frame (16 frames, frames usually last 16 ms)"
    )
    assert parts[-1].startswith("```sql\nSELECT bound_by")
    browser.evaluate("window.copied = undefined")
    browser.evaluate("document.querySelector('#findings .head button').click()")
    browser.wait("window.copied !== undefined")
    assert parts[0] in browser.evaluate("window.copied")


def test_dark_and_light_themes_are_readable(browser: chromium.Browser, folder: Path) -> None:
    browser.send(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    browser.open(folder / "plain.html")
    browser.evaluate(chromium.DRAW_ALL)
    for theme in ("dark", "light"):
        assert browser.evaluate("document.documentElement.dataset.theme") == theme
        ratios = browser.evaluate(CONTRAST)
        assert min(ratios.values()) >= 4.5, ratios
        browser.evaluate("document.getElementById('theme').click()")
    assert browser.complaints == []


# Contrast of text against its background, by the formula of WCAG 2.
CONTRAST = """(() => {
  const luminance = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = {};
  for (const selector of ['h1', '.window', '.advice', '.badge', 'summary', 'td', 'th button',
    'pre code', 'figcaption', '.contents a', '.foot p']) {
    for (const element of document.querySelectorAll(selector)) {
      const [a, b] = [getComputedStyle(element).color, behind(element)].map(luminance);
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      found[selector] = Math.min(found[selector] || 99, ratio);
    }
  }
  return found;
})()"""
