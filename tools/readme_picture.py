"""Renders the picture in the README and copies its example finding from the demo: `make picture`.

Runs `schedlens demo`, takes a screenshot of the first screen of its report with headless Chromium,
and replaces the text between the two markers in README.md by a finding as the demo printed it.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import chromium  # noqa: E402

DEMO = ROOT / "build" / "demo"
PICTURE = ROOT / "docs" / "images" / "report.png"
README = ROOT / "README.md"
BEGIN, END = "<!-- finding -->\n", "<!-- /finding -->\n"
WIDTH = 1280
MOST_BYTES = 250_000
COLUMNS = 100
# The first of these whose finding the demo prints in full.
ANALYZERS = ("parking", "frame_time", "quantum_end_chain", "ready_obstacle")


def main() -> None:
    """Writes the picture, then the finding."""
    if chromium.PROGRAM is None:
        sys.exit("Chromium is missing: apt-get install chromium")
    printed = demo()
    take_picture()
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    README.write_text(
        f"{before}{BEGIN}```text\n{finding(printed)}\n```\n{END}{after}", encoding="utf-8"
    )
    print(f"wrote {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size:,} bytes, and README.md")


def demo() -> list[str]:
    """Runs the demo; returns the lines that it printed."""
    program = Path(sysconfig.get_path("scripts")) / "schedlens"
    done = subprocess.run(
        [program, "demo", "--no-open", "-o", DEMO], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()


def finding(lines: list[str]) -> str:
    """A finding as printed: the line with its title and the indented lines after it, wrapped."""
    with duckdb.connect(str(DEMO / "analysis.duckdb"), read_only=True) as con:
        titles = [
            row[0]
            for analyzer in ANALYZERS
            for row in con.execute(
                "SELECT title FROM finding WHERE analyzer = ? AND severity = 'critical' "
                "ORDER BY finding_id",
                [analyzer],
            ).fetchall()
        ]
    for title in titles:
        for number, line in enumerate(lines):
            if title in line:
                end = number + 1
                while end < len(lines) and lines[end].startswith("  "):
                    end += 1
                return "\n".join(
                    wrapped
                    for printed in lines[number:end]
                    for wrapped in textwrap.wrap(printed, COLUMNS, subsequent_indent=" " * 9)
                )
    sys.exit(f"the demo printed no critical finding of {', '.join(ANALYZERS)}")


def take_picture() -> None:
    """The top of the report up to the end of its first screen, as large as the limit allows."""
    with (
        tempfile.TemporaryDirectory() as profile,
        chromium.Browser(Path(profile), width=WIDTH, height=900) as browser,
    ):
        browser.open(DEMO / "report.html")
        height = browser.evaluate(
            "Math.ceil(document.querySelector('#findings .first').getBoundingClientRect().bottom)"
            " + 16"
        )
        for scale in (1.0, 0.9, 0.8, 0.7, 0.6):
            browser.send(
                "Emulation.setDeviceMetricsOverride",
                width=WIDTH, height=height, deviceScaleFactor=scale, mobile=False,
            )  # fmt: skip
            PICTURE.parent.mkdir(parents=True, exist_ok=True)
            browser.screenshot(PICTURE)
            if PICTURE.stat().st_size <= MOST_BYTES:
                return
    sys.exit(f"{PICTURE} is larger than {MOST_BYTES:,} bytes even at 60 % of its size")


if __name__ == "__main__":
    main()
