"""Workflows are pinned, checked by actionlint, and name existing commands and files."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "lint_workflows.py"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The script that runs actionlint, as a module."""
    spec = importlib.util.spec_from_file_location("lint_workflows", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def actionlint(tool: ModuleType) -> list[str]:
    """The command that runs it."""
    words, why_not = tool.program()
    if not words:
        pytest.skip(f"workflows are not checked: {why_not}")
    found: list[str] = words
    return found


def test_every_action_is_pinned_by_commit_with_its_version() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "release", "wheels"]
    uses = [
        line.strip().removeprefix("- ")
        for path in WORKFLOWS
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses:" in line and "./" not in line
    ]
    assert len(uses) > 5
    pinned = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in uses if not pinned.fullmatch(line)] == []


def test_only_the_publish_job_may_write() -> None:
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert text.count("permissions:\n  contents: read\n") == 1, path.name
        assert text.count(": write") == (1 if path.stem == "release" else 0), path.name


def test_files_and_targets_in_steps_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"make (\w+)$", text, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        for name in re.findall(r"tools/\w+\.\w+|requirements\.\w+|\./\.github/\S+\.yml", text):
            assert (ROOT / name).exists(), name


def test_wheels_are_built_for_one_python_and_later() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = project["project"]["requires-python"].removeprefix(">=").replace(".", "")
    assert project["tool"]["cibuildwheel"]["build"] == f"cp{oldest}-*"
    manifest = tomllib.loads((ROOT / "decoders/python/Cargo.toml").read_text(encoding="utf-8"))
    assert manifest["dependencies"]["pyo3"]["features"] == [f"abi3-py{oldest}"]


def test_actionlint_accepts_the_workflows(tool: ModuleType, actionlint: list[str]) -> None:
    assert tool.lint(actionlint, WORKFLOWS) == (0, "")


def test_actionlint_refuses_a_missing_job(
    tool: ModuleType, actionlint: list[str], tmp_path: Path
) -> None:
    broken = tmp_path / "release.yml"
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    broken.write_text(text.replace("needs: tag", "needs: tags"), encoding="utf-8")
    code, said = tool.lint(actionlint, [broken])
    assert code == 1
    assert '"tags"' in said


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--require"], 2)])
def test_without_go_one_line_says_how_to_check_them(
    words: list[str], code: int, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), *words], env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    (line,) = done.stdout.splitlines()
    assert line.startswith("workflows are not checked: neither actionlint 1.7.12 nor Go is ")
    assert (done.returncode, done.stderr) == (code, "")
