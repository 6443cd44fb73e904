"""CONTRIBUTING.md: its example works in a copy of the tree, and its links exist."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fixture_files import fixture

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# Blocks whose first line names a file: path and content.
FILES = re.findall(r"^```\w+ (\S+/\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
INDEX = "docs/findings/README.md"
PARTS = ("analyzers", "collectors", "queries", "reports")
CHECKS = (
    "tests/queries/test_thread_migration.py",
    "tests/queries/test_queries_documented.py",
    "tests/ask/test_analyzers.py",
    "tests/ask/test_findings_pages.py",
)


def with_row(text: str, row: str) -> str:
    """The index with one more row, in the order of names."""
    lines = text.splitlines()
    later = [i for i, line in enumerate(lines) if line.startswith("| [") and line > row]
    lines.insert(later[0], row)
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the files of the example; `site/` has them as one package."""
    tree = tmp_path_factory.mktemp("contributing") / "tree"
    unused = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in (*PARTS, "docs/findings", "tests/support", "tests/ask", "tests/queries"):
        shutil.copytree(ROOT / name, tree / name, ignore=unused)
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, tree / name)
    (tree / "fixtures").symlink_to(ROOT / "fixtures")
    for name, content in FILES:
        path = tree / name
        if name == INDEX:
            path.write_text(with_row(path.read_text(encoding="utf-8"), content.strip()))
            continue
        assert not path.exists(), f"{name} exists: the example no longer adds it"
        path.write_text(content, encoding="utf-8")
    package = tree / "site" / "schedlens"
    package.mkdir(parents=True)
    for path in (ROOT / "src" / "schedlens").iterdir():
        (package / path.name).symlink_to(path)
    for name in PARTS:
        (package / name).symlink_to(tree / name)
    return tree


def run(tree: Path, *words: str) -> str:
    """Output of this environment's Python with the package of the copy."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tree, env=os.environ | {"PYTHONPATH": str(tree / "site")},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_example_lists_every_file_in_order() -> None:
    assert [name for name, _ in FILES] == [
        "queries/threads/thread_migration.sql",
        "analyzers/thread_migration.py",
        "reports/thread_migration.py",
        "docs/findings/thread_migration.md",
        INDEX,
        "tests/queries/test_thread_migration.py",
    ]


def test_example_passes_the_checks_of_all_analyzers(tree: Path) -> None:
    wanted = "migration or index_lists or has_its_page or states_its_thresholds or moves_most"
    said = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CHECKS, "-k", wanted)
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    # Two of its own, three of all pages and analyzers, and those with one case per name.
    assert int(passed[1]) >= 12, said
    assert "skipped" not in said


def test_example_is_formatted_and_typed(tree: Path) -> None:
    python = [name for name, _ in FILES if name.endswith(".py")]
    run(tree, "-m", "ruff", "format", "--check", "--no-cache", *python)
    run(tree, "-m", "ruff", "check", "--no-cache", *python)
    run(tree, "-m", "mypy", "--cache-dir", str(tree / "types"), *python)


def test_finding_of_the_example_is_in_the_report(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    program = "from schedlens.commands.cli import analyze; analyze()"
    run(tree, "-c", program, str(trace), "-o", "out")
    page = (tree / "out" / "report.html").read_text(encoding="utf-8")
    block = re.search(r'id="data">([^<]*)<', page)
    assert block is not None
    shown: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(block[1])))
    assert "A thread changed its CPU in 9 of 12 slices" in json.dumps(shown["findings"])
    (section,) = (found for found in shown["sections"] if found["name"] == "thread_migration")
    assert section["heading"] == "Migrations"


def test_every_named_file_and_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z][a-z-]+)\b", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in re.findall(r"\]\(([^)#]+)\)", TEXT):
        own = name == "thread_migration.md"
        assert own or (ROOT / name).exists(), name
    example = {name for name, _ in FILES}
    for name in re.findall(r"\b(?:tests|tools|src|docs|fixtures)/[\w./-]*\w", TEXT):
        assert name in example or (ROOT / name).exists(), name
