"""Packages of the core import only what is below them, without cycles."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src/schedlens"
# From top to bottom.
LAYERS = (
    "commands", "serve", "agents", "live", "differences", "fleet", "api", "report", "timeline",
    "export", "lake", "ask", "replay", "experiments", "record", "load", "simulate", "machine",
    "output", "errors",
)  # fmt: skip
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def name_of(path: Path) -> str:
    """`load.store` for src/schedlens/load/store.py."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in FILES} | {"errors": SOURCE / "errors.py"}


def imported(path: Path, *, types: bool = True) -> Iterator[str]:
    """The modules of the core that a module imports, also inside functions.

    `types`: including imports for the type checker only.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    typing = {
        inner
        for block in blocks
        if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for inner in ast.walk(block)
    }
    for node in ast.walk(tree):
        if not types and node in typing:
            continue
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        package, _, module = node.module.partition(".")
        if package == "schedlens":
            for alias in node.names:
                whole = f"{module}.{alias.name}" if module else alias.name
                yield whole if whole in MODULES else module


def test_every_module_belongs_to_a_layer() -> None:
    assert {name.split(".")[0] for name in MODULES} == set(LAYERS)
    assert sorted(path.name for path in SOURCE.glob("*.py")) == ["__init__.py", "errors.py"]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_modules_import_only_from_their_layer_and_below(path: Path) -> None:
    own = LAYERS.index(name_of(path).split(".")[0])
    layers = {module.split(".")[0] for module in imported(path)} & set(LAYERS)
    assert [layer for layer in layers if LAYERS.index(layer) < own] == []


def test_no_import_cycle() -> None:
    graph = {
        name: {other for other in imported(path, types=False) if other in MODULES and other != name}
        for name, path in MODULES.items()
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_module_names_do_not_repeat_words() -> None:
    # The same part has the same name for each system: record/windows/topology.py. A tool for agents
    # has the name of the command whose answer it returns: agents/tools/what_if.py.
    stems: dict[str, set[str]] = defaultdict(set)
    for name in MODULES:
        *folders, leaf = name.split(".")
        shared_name = {"linux", "windows", "tools"} & set(folders)
        if folders and not shared_name and not leaf.startswith("__"):
            words = "_".join(sorted(re.sub(r"(ing|ed|s)$", "", word) for word in leaf.split("_")))
            stems[words].add(name)
    assert {words: names for words, names in stems.items() if len(names) > 1} == {}
