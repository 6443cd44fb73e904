"""docs/compare.md states the quantities, rules and options that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from schedlens.commands.compare import compare
from schedlens.differences import rules_file
from schedlens.differences.quantities import QUANTITIES

PAGE = (Path(__file__).resolve().parents[2] / "docs/compare.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    found = re.search(rf"```\w+ {re.escape(name)}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_table_lists_every_quantity() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\| (.*?) \| (.*?) ?\| (.*?) \|$", PAGE, re.M)
    assert rows == [
        (one.name, one.text, one.unit, one.of, one.better or "", one.analyzer) for one in QUANTITIES
    ]


def test_rules_of_the_page_are_valid() -> None:
    found = rules_file.parsed(tomllib.loads(block("rules.toml")))
    assert [rule.metric for rule in found.rules] == [
        "frame_p95_ns",
        "work_per_s",
        "ready_idle_available_threads",
    ]


def test_workflow_uses_options_that_exist() -> None:
    known = {option for parameter in compare.params for option in parameter.opts}
    (call,) = re.findall(
        r"schedlens compare (.*?)\|\| code", block(".github/workflows/schedule.yml"), re.DOTALL
    )
    used = set(re.findall(r"--[a-z]+", call.replace("printf --", "printf")))
    assert used == {
        "--baseline",
        "--align",
        "--gate",
        "--junit",
        "--sarif",
        "--markdown",
        "--report",
    }
    assert used <= known


def test_every_quantity_names_what_explains_it() -> None:
    root = Path(__file__).resolve().parents[2]
    known = {path.stem for path in root.glob("analyzers/*.py")} | {
        path.stem for path in root.glob("queries/*/*.sql")
    }
    assert {one.analyzer for one in QUANTITIES} <= known
