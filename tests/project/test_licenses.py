"""docs/third-party-licenses.md is current, complete, and part of the package."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "third-party-licenses.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def licenses() -> ModuleType:
    """The generator as a module."""
    spec = importlib.util.spec_from_file_location("licenses", ROOT / "tools" / "licenses.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks its own module up.
    sys.modules["licenses"] = module
    spec.loader.exec_module(module)
    return module


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_licenses_page_is_current(licenses: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = licenses.main(["--check"])
    said = capsys.readouterr()
    if code == 2:
        pytest.skip(said.err.strip())
    assert (code, said.out) == (0, "")


def test_crates_and_packages_have_the_locked_versions() -> None:
    crates = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    locked = {(crate["name"], crate["version"]) for crate in crates}
    assert [row for row in rows("In the wheels") if (row[0], row[1]) not in locked] == []
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    assert [row for row in rows("Installed with the wheels") if pins[row[0]] != row[1]] == []


def test_every_direct_dependency_is_listed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = {re.split(r"[<>=]", line)[0] for line in project["dependencies"]}
    assert direct <= {row[0] for row in rows("Installed with the wheels")}
    crates = {row[0] for row in rows("In the wheels")}
    for member in (*sorted((ROOT / "decoders").iterdir()), ROOT / "workloads"):
        manifest = tomllib.loads((member / "Cargo.toml").read_text(encoding="utf-8"))
        tables = [manifest, *manifest.get("target", {}).values()]
        linked = {name for table in tables for name in table.get("dependencies", {})}
        assert {name for name in linked if not name.startswith("schedlens-")} <= crates


def test_every_license_is_stated_and_none_is_gpl() -> None:
    stated = [row[2] for row in rows("In the wheels") + rows("Installed with the wheels")]
    assert [text for text in stated if not text or text == "not stated"] == []
    assert [text for text in stated if "GPL" in text] == []
    assert "No text." not in PAGE


def test_apache_is_chosen_if_offered(licenses: ModuleType) -> None:
    assert licenses.taken("MIT OR Apache-2.0") == "Apache-2.0"
    assert licenses.taken("MIT/Apache-2.0") == "Apache-2.0"
    assert licenses.taken("Apache-2.0 AND MIT") == "Apache-2.0 AND MIT"
    assert licenses.taken("BSD-3-Clause") == "BSD-3-Clause"


def test_package_includes_the_licenses_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "docs/third-party-licenses.md" in project["license-files"]
