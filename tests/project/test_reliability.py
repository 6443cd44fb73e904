"""docs/reliability.md names existing tests, one for each guarantee."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def guarantees() -> list[list[str]]:
    """The cells of each row of the tables with the heading `guarantee`."""
    tables = re.findall(r"^\| guarantee \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def missing(named: list[tuple[str, str]]) -> list[str]:
    """Those of the tests that do not exist."""
    found = []
    for path, name in named:
        file = ROOT / path
        tree = ast.parse(file.read_text(encoding="utf-8")) if file.exists() else ast.parse("")
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if name not in names:
            found.append(f"{path}::{name}")
    return found


def test_every_named_test_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 40
    assert missing(named) == []


def test_missing_tests_are_noticed() -> None:
    own = "tests/project/test_reliability.py"
    gone = [(own, "test_gone"), ("tests/project/test_gone.py", "test_every_named_test_exists")]
    assert missing([(own, "test_missing_tests_are_noticed"), *gone]) == [
        f"{path}::{name}" for path, name in gone
    ]


def test_every_guarantee_names_its_test() -> None:
    assert [row[0] for row in guarantees() if not NAMED.search(row[-1])] == []
    assert len({row[0] for row in guarantees()}) == len(guarantees()) > 40


def test_named_tests_are_tests() -> None:
    assert [name for _, name in NAMED.findall(PAGE) if not name.startswith("test_")] == []
