"""Headless Chromium driven through its debugging pipe: page, console, screenshots, and PDF."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip

# Every folded part of the page is opened.
OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true;"
# Figures are drawn when they come near the window: unfold them, scroll down and wait for each.
DRAW_ALL = """(async () => {
  const folded = 'details.part, details.group, details.figures';
  for (const one of document.querySelectorAll(folded)) one.open = true;
  for (const plot of document.querySelectorAll('.plot')) {
    plot.scrollIntoView({behavior: 'instant'});
    while (plot.dataset.state === 'waiting') await new Promise((done) => setTimeout(done, 20));
  }
})()"""


class BrowserError(Exception):
    """Chromium answered with an error, or too late."""


class Browser:
    """One page in its own Chromium; `complaints` has the console messages."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 800) -> None:
        assert PROGRAM is not None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._rest = b""
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        # Above the two numbers on which Chromium speaks, so that neither hides the other.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_child, from_child)]

        def as_three_and_four() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [PROGRAM, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}",
             "about:blank"],
            close_fds=False,
            preexec_fn=as_three_and_four,  # noqa: PLW1509
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in high:
            os.close(end)
        os.close(to_child)
        os.close(from_child)
        self._session: str | None = None
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def reset(self, width: int, height: int) -> None:
        """An empty page of this size, in the light theme, without what earlier pages left."""
        self.send("Page.navigate", url="about:blank")
        self.send("Emulation.setEmulatedMedia", media="", features=[])
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.complaints.clear()
        self.requests.clear()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer; events that arrive before it are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self, limit_s: float = 120) -> dict[str, Any]:
        end = time.monotonic() + limit_s
        pieces = [self._rest]
        while b"\0" not in pieces[-1]:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self._in, 1 << 20) if ready else b""
            if not piece:
                raise BrowserError("Chromium does not answer")
            pieces.append(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, found = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            texts = [str(item.get("value", item.get("description"))) for item in found["args"]]
            self.complaints.append(" ".join(texts))
        elif method == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", details["text"])
            self.complaints.append(thrown)
        elif method == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.complaints.append(found["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])

    def evaluate(self, script: str) -> Any:
        """The value of a script, after awaiting a promise."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def open(self, path: Path) -> None:
        """Opens a report and waits until it reports that it is ready."""
        self.send("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def wait(self, condition: str, limit_s: float = 60) -> None:
        """Waits until a script's value is true."""
        end = time.monotonic() + limit_s
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise BrowserError(f"not within {limit_s} s: {condition}; {self.complaints}")
            time.sleep(0.05)

    def key(self, key: str) -> None:
        """Presses and releases a key."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            more = text if kind == "keyDown" else {}
            self.send(
                "Input.dispatchKeyEvent",
                type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more,
            )  # fmt: skip

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """A picture of the window, or of the whole page."""
        picture = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            picture = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self) -> bytes:
        """The page as it prints."""
        printed = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(printed["data"])
