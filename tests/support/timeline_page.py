"""Drives the timeline of a report in Chromium as a person does: keys, pointer, and what it drew."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import chromium

LANES = "document.querySelector('.lanes')"
CANVAS = "document.querySelector('.lanes canvas')"


# Two frames of the screen: what was asked for has begun, or is drawn.
_FRAMES = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
    "setTimeout(done))))"
)
# The page waits for pauses before it loads and before it notes the view in the address.
_HASTE = (
    "const later = window.setTimeout; "
    "window.setTimeout = (act, ms, ...rest) => later(act, ms > 300 ? 10 : ms, ...rest);"
)


def hasten(browser: chromium.Browser) -> None:
    """Shortens the pauses of pages that are opened from now on."""
    browser.send("Page.addScriptToEvaluateOnNewDocument", source=_HASTE)


def settle(browser: chromium.Browser) -> None:
    """Waits until the view is drawn, loaded, and noted in the address."""
    browser.evaluate(_FRAMES)
    browser.wait(
        f"{LANES}.dataset.state === 'loaded' && {LANES}.ariaBusy !== 'true' "
        f"&& {LANES}.dataset.noted !== 'no'"
    )
    browser.evaluate(_FRAMES)


def press(browser: chromium.Browser, key: str, *, shift: bool = False) -> None:
    """A key on the timeline."""
    browser.evaluate(
        f"{CANVAS}.focus(), {CANVAS}.dispatchEvent(new KeyboardEvent('keydown', "
        f"{{key: {key!r}, shiftKey: {str(shift).lower()}, bubbles: true, cancelable: true}}))"
    )
    settle(browser)


def go(browser: chromium.Browser, fragment: str) -> None:
    """Opens a link to a view of the same report."""
    browser.evaluate(f"location.hash = {fragment!r}")
    settle(browser)


def view(browser: chromium.Browser) -> dict[str, str]:
    """The view as the address names it."""
    found = parse_qs(browser.evaluate("location.hash.slice(1)"), keep_blank_values=True)
    return {name: values[0] for name, values in found.items()}


def lane(browser: chromium.Browser, label: str) -> dict[str, float]:
    """Top and height of a lane in the canvas, in CSS pixels."""
    found: dict[str, float] = browser.evaluate(
        f"(() => {{ const label = [...document.querySelectorAll('.lane-label')].find((one) => "
        f"one.querySelector('.lane-name').textContent === {label!r}); const box = "
        "label.getBoundingClientRect(); const top = "
        f"{CANVAS}.getBoundingClientRect().top; return {{top: box.top - top, "
        "height: box.height}; })()"
    )
    return found


def painted(browser: chromium.Browser, label: str) -> float:
    """The share of a lane that is painted in the first process's color instead of idle's."""
    where = lane(browser, label)
    share: float = browser.evaluate(
        f"(() => {{ const canvas = {CANVAS}; const ratio = canvas.width / canvas.clientWidth; "
        f"const top = Math.round({where['top']} * ratio); "
        f"const height = Math.round({where['height']} * ratio); "
        "const data = canvas.getContext('2d').getImageData(0, top, canvas.width, height).data; "
        "const color = (name) => { const text = getComputedStyle(document.documentElement)"
        ".getPropertyValue(name).trim(); return [1, 3, 5].map((at) => parseInt(text.slice(at, "
        "at + 2), 16)); }; const pale = color('--pale'); const blue = color('--blue'); "
        "const way = blue.map((value, i) => value - pale[i]); "
        "const length = way.reduce((sum, value) => sum + value * value, 0); let busy = 0; "
        "for (let at = 0; at < data.length; at += 4) { "
        "const along = way.reduce((sum, value, i) => sum + value * (data[at + i] - pale[i]), 0); "
        "busy += Math.min(1, Math.max(0, along / length)); } return busy / (data.length / 4); })()"
    )
    return share


def table(browser: chromium.Browser) -> list[list[str]]:
    """The rows of the table below the lanes."""
    rows: list[list[Any]] = browser.evaluate(
        "[...document.querySelectorAll('.lane-details tbody tr')].map((row) => "
        "[...row.cells].map((cell) => cell.textContent))"
    )
    return rows
