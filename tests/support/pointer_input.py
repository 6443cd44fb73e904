"""Real pointer input in Chromium: wheel, drag, and two fingers, at places of the timeline."""

from __future__ import annotations

import chromium
import timeline_page

SHIFT = 8


def place(browser: chromium.Browser, share: float, label: str | None = None) -> tuple[float, float]:
    """A point at a share of the timeline's width, on a lane or on the ruler."""
    browser.evaluate(f"{timeline_page.CANVAS}.scrollIntoView({{behavior: 'instant'}})")
    box = browser.evaluate(
        f"(() => {{ const box = {timeline_page.CANVAS}.getBoundingClientRect(); "
        "return [box.left, box.top, box.width]; })()"
    )
    lane = timeline_page.lane(browser, label) if label else {"top": 0, "height": 20}
    return box[0] + share * box[2], box[1] + lane["top"] + lane["height"] / 2


def wheel(browser: chromium.Browser, at: tuple[float, float], down: float, keys: int = 0) -> None:
    """Turns the wheel."""
    browser.send(
        "Input.dispatchMouseEvent",
        type="mouseWheel", x=at[0], y=at[1], deltaX=0, deltaY=down, modifiers=keys,
    )  # fmt: skip
    timeline_page.settle(browser)


def drag(
    browser: chromium.Browser, begin: tuple[float, float], end: tuple[float, float], keys: int = 0
) -> None:
    """Presses the left button, moves, and lets go."""
    middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    for kind, (x, y) in (
        ("mouseMoved", begin), ("mousePressed", begin), ("mouseMoved", middle),
        ("mouseMoved", end), ("mouseReleased", end),
    ):  # fmt: skip
        browser.send(
            "Input.dispatchMouseEvent",
            type=kind, x=x, y=y, button="left", buttons=int(kind == "mouseMoved"),
            clickCount=1, modifiers=keys,
        )  # fmt: skip
    timeline_page.settle(browser)


def pinch(browser: chromium.Browser, at: tuple[float, float], before: float, after: float) -> None:
    """Two fingers around a point, with these distances from each other."""

    def touch(kind: str, gap: float | None) -> None:
        points = [] if gap is None else [at[0] - gap / 2, at[0] + gap / 2]
        browser.send(
            "Input.dispatchTouchEvent",
            type=kind, touchPoints=[{"x": x, "y": at[1], "id": i} for i, x in enumerate(points)],
        )  # fmt: skip

    touch("touchStart", before)
    touch("touchMove", (before + after) / 2)
    touch("touchMove", after)
    touch("touchEnd", None)
    timeline_page.settle(browser)
