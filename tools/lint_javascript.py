"""Lints the scripts of the report, joined as the page joins them, with biome.

Joined, because the files share one scope: a name that no file declares, or that none uses, is found
only in the whole. Messages name the file and its own line. npm installs the pinned biome into
tools/javascript/node_modules. Without npm, or without access to packages, nothing is linted: the
last line says so, and the exit status is 0, or 2 with `--require`. 1: biome found something.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from schedlens.report import page

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "tools" / "javascript"
SOURCES = ROOT / "reports" / "page"
JOINED = "report.js"
BIOME = HERE / "node_modules" / "@biomejs" / "biome" / "bin" / "biome"
_PLACE = re.compile(rf"\S*{re.escape(JOINED)}:(\d+):(\d+)")


def place(line: int) -> str:
    """File and line of a line of the joined script."""
    texts = {
        name: (SOURCES / f"{name}.js").read_text(encoding="utf-8").strip() for name in page.SCRIPTS
    }
    script = page.script()
    first = script[: script.index(texts[page.SCRIPTS[0]])].count("\n") + 1
    for name, text in texts.items():
        # The last line of a file is also the first of the next.
        last = first + text.count("\n")
        if first <= line <= last:
            return f"reports/page/{name}.js:{line - first + 1}"
        first = last
    return f"{JOINED}:{line}"


def install() -> str | None:
    """Installs the pinned biome; why that was not possible, or None."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return "npm is not installed. To get it: apt-get install npm, or https://nodejs.org"
    lock, mark = HERE / "package-lock.json", HERE / "node_modules" / ".installed"
    if BIOME.exists() and mark.exists() and mark.read_bytes() == lock.read_bytes():
        return None
    try:
        done = subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund", "--fetch-retries=1"],
            cwd=HERE, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "npm ci did not finish in 5 minutes"
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        return f"npm ci failed: {errors[0].removeprefix('npm error ') if errors else done.stderr}"
    mark.write_bytes(lock.read_bytes())
    return None


def lint(script: str) -> tuple[int, str]:
    """Exit status of biome, and what it printed, with the places in the files."""
    (HERE / JOINED).write_text(script, encoding="utf-8")
    done = subprocess.run(
        [
            str(shutil.which("node")), str(BIOME), "lint",
            "--error-on-warnings", "--max-diagnostics=100", "--colors=off",
            JOINED,
        ],
        cwd=HERE, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    said = _PLACE.sub(lambda match: f"{place(int(match[1]))}:{match[2]}", done.stdout + done.stderr)
    return done.returncode, said


def main(arguments: list[str]) -> int:
    """Exit status."""
    why_not = install()
    if why_not:
        print(f"JavaScript is not linted: {why_not}")
        return 2 if "--require" in arguments else 0
    code, said = lint(page.script())
    if code:
        print(said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
