"""The first screen in a browser: the verdict, findings with their moments, and short sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
import report_with_frames

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        chromium.PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)"
    ),
]


@pytest.fixture
def folder(built: Path) -> Path:
    return built


@pytest.fixture
def browser(window: chromium.Browser) -> Iterator[chromium.Browser]:
    window.reset(1440, 900)
    yield window
    window.complaints.clear()


def test_sweep_shows_its_scaling_before_the_findings(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "sweep.html")
    said = browser.evaluate("document.querySelector('.lead-said').textContent")
    assert said == (
        "20 CPUs: 10 threads are 10.00× one (1,500 MiB/s); more add nothing; with 10 threads, "
        "default does 80.7\u00a0% more than siblings. Each point was measured once, so a "
        "difference may be chance."
    )
    curves = browser.evaluate(
        "[...document.querySelectorAll('.verdict-plot polyline')]"
        ".map((line) => line.getAttribute('points').split(' ').length)"
    )
    assert curves == [3, 3, 3]
    # What the verdict says is not among the first findings.
    first = browser.evaluate("document.querySelector('.first')?.textContent || ''")
    assert "Placement" not in first
    assert browser.complaints == []


def test_first_finding_has_cost_advice_and_a_link_to_its_moment(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "frames.html")
    assert browser.evaluate("document.querySelector('.lead-said').textContent") == (
        "1 of 16 frames of game stutter: they last 24\u00a0ms longer than usual in total."
    )
    first = "document.querySelector('.first > li')"
    assert browser.evaluate(f"{first}.getBoundingClientRect().bottom") < 800
    text = browser.evaluate(f"{first}.textContent")
    assert "1 stutter in 16 frames cost 24\u00a0ms" in text
    assert "What it costs1.5 ms a frame(16 frames, frames usually last 16 ms)24 ms8.6 %" in text
    assert "What to doRecord the thread that presents" in text
    # The stutter lasts from 90 to 130 ms; half of that is shown on both sides.
    link = f"{first}.querySelector('a.moment')"
    with report_with_frames.create() as con:
        number = con.execute(
            "SELECT min(finding_id) FROM finding WHERE kind = 'stutter'"
        ).fetchall()[0][0]
    assert browser.evaluate(f"{link}.getAttribute('href')") == (
        f"#recording=1&from=70000000&to=150000000&sort=cost&finding={number}"
    )
    assert browser.evaluate(f"{link}.querySelectorAll('rect').length") > 10
    assert browser.complaints == []


def test_no_finding_is_shown_twice_and_evidence_opens_in_place(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "frames.html")
    titles = browser.evaluate(
        "[...document.querySelectorAll('.first .plain-words, details.finding > summary b')]"
        ".map((one) => one.textContent)"
    )
    assert len(titles) == len(set(titles)) >= 1
    details = "document.querySelector('.first > li .more-of-it details')"
    assert browser.evaluate(f"{details}.querySelector('pre').checkVisibility()") is False
    browser.evaluate(f"{details}.querySelector('summary').click()")
    assert browser.evaluate(f"{details}.querySelector('pre').checkVisibility()") is True


def test_link_to_a_folded_finding_opens_it(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "sweep.html")
    folded = "document.querySelector('details.finding')"
    assert browser.evaluate(f"{folded}.open") is False
    browser.evaluate(f"location.hash = {folded}.id")
    browser.wait(f"{folded}.open")


def test_section_that_no_finding_is_about_is_a_line_until_a_link_opens_it(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "frames.html")
    heights = (
        "Object.fromEntries([...document.querySelectorAll('main > section, main > details')]"
        ".map((one) => [one.id, one.getBoundingClientRect().height]))"
    )
    before = browser.evaluate(heights)
    assert list(before)[:3] == ["findings", "cpu_timeline", "frame_time"]
    # What is open fits a screen; what is not is a line.
    assert max(before[name] for name in ("frame_time", "oversubscription")) < 900
    assert before["cpu_timeline"] < 1050
    assert before["more"] < 60
    assert browser.evaluate("document.documentElement.scrollHeight") < 5000
    shown = "document.querySelector('#topology .part').checkVisibility()"
    assert browser.evaluate(f"{shown} && document.querySelector('#topology .part').open") is False
    browser.evaluate("document.querySelector('.contents a[href=\"#topology\"]').click()")
    browser.wait(f"{shown} && document.querySelector('#topology .part').open")
    browser.wait(
        "(() => { const top = document.querySelector('#topology').getBoundingClientRect().top; "
        "return top > -5 && top < 100; })()"
    )
    # Back leads to where the reader was.
    browser.evaluate("history.back()")
    browser.wait("location.hash === ''")
    # On paper every section is open, and folded again afterwards.
    browser.evaluate("document.querySelector('#more').open = false")
    browser.pdf()
    assert browser.evaluate("document.querySelector('#more').open") is False
    assert browser.complaints == []


def test_sections_fold_their_tables_and_hide_tables_without_rows(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "sweep.html")
    shown = browser.evaluate(
        "[...document.querySelectorAll('main > section:not(#findings)')].filter((section) => "
        "section.querySelector('figure') && [...section.querySelectorAll('table')]"
        ".some((one) => one.checkVisibility())).map((section) => section.id)"
    )
    assert shown == []
    assert (
        browser.evaluate(
            "[...document.querySelectorAll('tbody')].filter((body) => !body.rows.length).length"
        )
        == 0
    )
    stops = browser.evaluate(
        "[...document.querySelectorAll('a[href],button,input,summary,[tabindex=\"0\"]')]"
        ".filter((one) => one.checkVisibility()).length"
    )
    # The lanes of the timeline have one each, and one for the pin.
    assert stops < 250
    # What was checked and what was not recorded are a line each.
    lines = browser.evaluate(
        "[...document.querySelectorAll('#findings > details:not(.finding)')]"
        ".map((one) => [one.open, one.querySelector('summary').textContent])"
    )
    assert [is_open for is_open, _ in lines] == [False] * 3
    assert [re.sub(r"\d+", "n", text) for _, text in lines] == [
        "Checked, no problem found (n)",
        "Not recorded, or nothing to show (n)",
        "The SQL of all findings",
    ]


def test_page_uses_the_width_and_stores_nothing(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "frames.html")
    for width in (800, 1920, 3840):
        browser.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=1000, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        shown = browser.evaluate(
            "[document.documentElement.scrollWidth, "
            "document.querySelector('main').getBoundingClientRect().right]"
        )
        assert shown[0] == width
        assert shown[1] > width - 40
    assert browser.evaluate("document.cookie") == ""


def test_printed_advice_and_figures_do_not_overlap(browser: chromium.Browser, folder: Path) -> None:
    browser.open(folder / "frames.html")
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        overlaps = browser.evaluate(
            """[...document.querySelectorAll('.first > li, details.finding')].flatMap((item) => {
              const boxes = [...item.querySelectorAll('p, a, summary')]
                .filter((one) => one.checkVisibility() && one.children.length === 0)
                .map((one) => one.getBoundingClientRect()).filter((box) => box.width && box.height);
              return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
                Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1));
            }).length"""
        )
        assert overlaps == 0
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


def test_printed_report_has_few_pages_and_whole_words_in_headers(
    browser: chromium.Browser, folder: Path
) -> None:
    browser.open(folder / "frames.html")
    assert len(re.findall(rb"/Type\s*/Page\b", browser.pdf())) < 15
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        wraps = browser.evaluate("getComputedStyle(document.querySelector('th')).overflowWrap")
        assert wraps == "normal"
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")
