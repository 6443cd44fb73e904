"""The lint of the report's scripts finds names across files and explains why it cannot run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from schedlens.report import page

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "lint_javascript.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("lint_javascript", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def biome(tool: ModuleType) -> ModuleType:
    """The same if the linter is installed or can be installed."""
    why_not = tool.install()
    if why_not:
        pytest.skip(f"JavaScript is not linted: {why_not}")
    return tool


def test_line_of_joined_script_maps_to_its_file(tool: ModuleType) -> None:
    script = page.script()
    for name in page.SCRIPTS:
        text = (ROOT / "reports" / "page" / f"{name}.js").read_text(encoding="utf-8")
        number, line = next(
            (i, line) for i, line in enumerate(text.splitlines(), 1) if "function " in line
        )
        joined = script[: script.index(text.strip())].count("\n") + number
        assert script.splitlines()[joined - 1] == line
        assert tool.place(joined) == f"reports/page/{name}.js:{number}"


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--require"], 2)])
def test_without_npm_one_line_says_how_to_install_it(
    words: list[str], code: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), *words], env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    (line,) = done.stdout.splitlines()
    assert line.startswith("JavaScript is not linted: npm is not installed. To get it: ")
    assert (done.returncode, done.stderr) == (code, "")


def test_report_scripts_have_no_lint_errors(biome: ModuleType) -> None:
    assert biome.lint(page.script())[0] == 0


def test_undeclared_name_is_reported_with_its_file(biome: ModuleType) -> None:
    script = page.script()
    line = "function chooseTheme(theme) {"
    assert line in script
    damaged = script.replace(line, f"{line} noSuchName();")
    code, said = biome.lint(damaged)
    assert code == 1
    assert "noUndeclaredVariables" in said
    assert "reports/page/page.js:" in said
