"""docs/reference is what the sources generate, and the generator finds stale files."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import duckdb
import pytest

from schedlens.ask import catalog
from schedlens.commands import cli
from schedlens.load import schema

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The generator as a module."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Binding all queries takes seconds, and what they say does not change meanwhile.
    module.__dict__["views"] = cache(module.views)
    return module


def test_reference_is_current(reference: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = reference.main(["--check"])
    assert (code, capsys.readouterr().out) == (0, "")


def test_stale_file_is_named_and_not_changed(
    reference: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "docs" / "reference"
    folder.mkdir(parents=True)
    (folder / "commands.md").write_text("# Commands\n")
    (folder / "views.md").write_text(reference.views(), encoding="utf-8")
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "FOLDER", folder)
    assert reference.main(["--check"]) == 1
    assert capsys.readouterr().out == "docs/reference/commands.md is stale: run `make reference`\n"
    assert (folder / "commands.md").read_text() == "# Commands\n"
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0


def test_every_command_view_and_table_has_a_heading() -> None:
    commands = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8").splitlines()
    for name in cli.COMMANDS:
        assert any(line.startswith(f"## `schedlens {name}`") for line in commands), name
    views = (ROOT / "docs/reference/views.md").read_text(encoding="utf-8").splitlines()
    headings = [line.removeprefix("### ") for line in views if line.startswith("### ")]
    with duckdb.connect() as con:
        tables = {**schema.create(con), **schema.create(con, [schema.lake_file()])}
    queries = catalog.load_all() + catalog.load_fleet()
    assert sorted(headings) == sorted([*(q.full_name for q in queries), *tables])


def test_every_column_has_a_type_and_a_meaning() -> None:
    views = (ROOT / "docs/reference/views.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in views if line.startswith("| `")]
    assert len(rows) > 1000
    assert [row for row in rows if row.endswith("| |") or row.endswith("|  |")] == []
