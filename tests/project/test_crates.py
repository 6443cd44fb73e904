"""Crates of decoders/ use only those below them, and no crate has an import cycle."""

from __future__ import annotations

import graphlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

DECODERS = Path(__file__).resolve().parents[2] / "decoders"
# From bottom to top.
LAYERS = (
    "core_types", "system", "input", "symbols", "tracepoints", "perfetto", "perf_data",
    "trace_dat", "etl", "text", "schedule", "loader", "replay", "python",
)  # fmt: skip
READERS = ("perf_data", "trace_dat", "etl", "text")
# Each folder uses only those before it.
ETL_FOLDERS = ("compression", "payload", "records", "container", "passes", "facts")

Module = tuple[str, ...]
Edges = dict[Module, set[Module]]


def dependencies(crate: str) -> set[str]:
    manifest = tomllib.loads((DECODERS / crate / "Cargo.toml").read_text(encoding="utf-8"))
    return set(manifest.get("dependencies", {}))


def package(crate: str) -> str:
    return "schedlens-" + crate.replace("_", "-")


@pytest.mark.parametrize("crate", LAYERS)
def test_crate_uses_only_crates_below_it(crate: str) -> None:
    below = {package(name) for name in LAYERS[: LAYERS.index(crate)]}
    used = {name for name in dependencies(crate) if name.startswith("schedlens-")}
    assert used <= below


@pytest.mark.parametrize("crate", READERS)
def test_reader_crates_need_no_arrow_python_or_other_reader(crate: str) -> None:
    used = dependencies(crate)
    assert not {name for name in used if name.startswith(("arrow", "pyo3"))}
    assert not used & {package(other) for other in READERS}


def without_tests(text: str) -> str:
    code = re.sub(r"//[^\n]*", "", text)
    return code.split("#[cfg(test)]\nmod tests")[0]


def paths_of(text: str) -> Iterator[list[str]]:
    """Each path from `crate`, `super`, or `self`; for a list in braces, each member."""
    for found in re.finditer(r"\b((?:crate|super)(?:::\w+)*)(?:::\{)?", text):
        front = found[1].split("::")
        if not found[0].endswith("{"):
            yield front
            continue
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        for member in text[found.end() : end - 1].split(","):
            yield front + re.findall(r"\w+", member)[:2]


def modules(source: Path) -> dict[Module, Path]:
    found = {}
    for path in source.rglob("*.rs"):
        parts = path.relative_to(source).with_suffix("").parts
        if "tests" not in parts:
            found[() if parts == ("lib",) else parts[: -1 if parts[-1] == "mod" else None]] = path
    return found


def is_listing(path: Path) -> bool:
    """Whether the file only names the modules of its folder."""
    return path.name in ("mod.rs", "lib.rs")


@cache
def exports(path: Path) -> dict[str, str]:
    """What a folder re-exports, with the module of the folder that it comes from."""
    if not is_listing(path):
        return {}
    found = re.findall(
        r"pub(?:\(\w+\))? use self::(\w+)(?:::\w+)*::(?:\{([^}]*)\}|(\w+));",
        path.read_text(encoding="utf-8"),
    )
    return {item: module for module, many, one in found for item in re.findall(r"\w+", many + one)}


def module_of(name: Module, path: list[str], known: dict[Module, Path]) -> Module:
    """The module that a path in the module `name` leads to, through re-exports of folders."""
    at = () if path[0] == "crate" else name
    rest = path[1:] if path[0] == "crate" else path
    while rest and rest[0] == "super":
        at, rest = at[:-1], rest[1:]
    while rest:
        if (*at, rest[0]) in known:
            at, rest = (*at, rest[0]), rest[1:]
        elif rest[0] in exports(known[at]):
            at = (*at, exports(known[at])[rest[0]])
        else:
            break
    return at


def imports(source: Path) -> Edges:
    known = modules(source)
    edges: Edges = {}
    for name, path in known.items():
        if not is_listing(path):
            code = without_tests(path.read_text(encoding="utf-8"))
            found = {module_of(name, used, known) for used in paths_of(code)}
            edges[name] = {used for used in found - {name} if not is_listing(known[used])}
    return edges


@pytest.mark.parametrize("crate", LAYERS)
def test_no_import_cycle_between_files(crate: str) -> None:
    source = DECODERS / crate / "src"
    edges = imports(source)
    # A crate of one file has nothing to import.
    assert edges or len(list(source.rglob("*.rs"))) == 1
    list(graphlib.TopologicalSorter(edges).static_order())


def test_etl_reader_folders_use_only_earlier_folders() -> None:
    edges = imports(DECODERS / "etl" / "src")
    seen = set()
    for name, used in edges.items():
        if name[0] in ETL_FOLDERS:
            seen.add(name[0])
            folders = {module[0] for module in used if module[0] in ETL_FOLDERS}
            assert folders <= set(ETL_FOLDERS[: ETL_FOLDERS.index(name[0]) + 1]), name
    assert seen == set(ETL_FOLDERS)


def test_import_cycle_is_found(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "lib.rs").write_text("mod one;\npub mod part;\n", encoding="utf-8")
    (tmp_path / "one.rs").write_text("use crate::part::{Two, other};\n", encoding="utf-8")
    (tmp_path / "part/mod.rs").write_text("mod two;\npub use self::two::Two;\n", encoding="utf-8")
    (tmp_path / "part/two.rs").write_text("use super::super::one::One;\n", encoding="utf-8")
    with pytest.raises(graphlib.CycleError):
        list(graphlib.TopologicalSorter(imports(tmp_path)).static_order())
