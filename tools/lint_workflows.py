"""Checks .github/workflows with actionlint, at a pinned version.

An `actionlint` of that version on the path is used, else Go fetches and builds it. Where neither is
possible nothing is checked: the last line says so, and the exit status is 0, or 2 with `--require`.
1: actionlint found something.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = "1.7.12"
MODULE = f"github.com/rhysd/actionlint/cmd/actionlint@v{VERSION}"
INSTALL = f"install Go (https://go.dev/dl), or actionlint {VERSION} on the path"


def program() -> tuple[list[str], str]:
    """The command that runs actionlint, or nothing and why not."""
    installed = shutil.which("actionlint")
    if installed and _output([installed, "--version"]).split()[:1] in (
        [VERSION], [f"v{VERSION}"],
    ):  # fmt: skip
        return [installed], ""
    go = shutil.which("go")
    if go is None:
        return [], f"neither actionlint {VERSION} nor Go is installed. To check them: {INSTALL}"
    # Built once, into Go's cache.
    words = [go, "run", MODULE]
    if VERSION not in _output([*words, "--version"]):
        return [], f"Go could not fetch actionlint {VERSION}. To check them: {INSTALL}"
    return words, ""


def _output(words: list[str]) -> str:
    """What a command prints; nothing where it fails."""
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def lint(words: list[str], files: list[Path]) -> tuple[int, str]:
    """Exit status and output of actionlint for these files."""
    done = subprocess.run(
        [*words, "-no-color", "-shellcheck=", "-pyflakes=", *map(str, files)],
        cwd=ROOT, env=os.environ | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def main(arguments: list[str]) -> int:
    """Exit status."""
    words, why_not = program()
    if not words:
        print(f"workflows are not checked: {why_not}")
        return 2 if "--require" in arguments else 0
    code, said = lint(words, sorted((ROOT / ".github" / "workflows").glob("*.yml")))
    if code:
        print(said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
