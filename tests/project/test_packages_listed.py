"""The wheel contains every package of src/schedlens."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_package_is_in_the_list_of_pyproject() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    source = ROOT / "src"
    found = {
        ".".join(file.parent.relative_to(source).parts) for file in source.rglob("__init__.py")
    }
    assert found - set(listed["tool"]["setuptools"]["packages"]) == set()
