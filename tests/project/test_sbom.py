"""The bill of materials is current, complete, well-formed, and part of the wheel."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import sbom

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "sbom.cdx.json").read_text(encoding="utf-8")
BOM: dict[str, Any] = json.loads(TEXT)
PAGE = (ROOT / "docs" / "third-party-licenses.md").read_text(encoding="utf-8")

# The parts of the CycloneDX 1.6 schema that the file uses: the keys of each object, the required
# ones first. The whole schema and its validator would be 20 more packages.
BOM_KEYS = (
    {"bomFormat", "specVersion"},
    {"$schema", "serialNumber", "version", "metadata", "components", "dependencies"},
)
COMPONENT_KEYS = (
    {"type", "name"},
    {"bom-ref", "version", "description", "scope", "hashes", "licenses", "purl", "properties"},
)
PURL = re.compile(r"pkg:(cargo|pypi|generic)/[a-z0-9_.-]+@[A-Za-z0-9.%_-]+", re.IGNORECASE)
SERIAL = re.compile(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SPDX = re.compile(r"[A-Za-z0-9.-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.-]+)*")


def faults(bom: dict[str, Any]) -> list[str]:
    """What is not as CycloneDX 1.6 defines it, a line each."""
    found = _keys("bom", bom, BOM_KEYS)
    if (bom.get("bomFormat"), bom.get("specVersion")) != ("CycloneDX", "1.6"):
        found.append("not CycloneDX 1.6")
    if not SERIAL.fullmatch(bom.get("serialNumber", "")):
        found.append("malformed serialNumber")
    components = [bom["metadata"]["component"], *bom["components"]]
    for row in components:
        name = f"component {row.get('name')}"
        found += _keys(name, row, COMPONENT_KEYS)
        if row["type"] not in ("application", "library"):
            found.append(f"{name}: type {row['type']}")
        if row.get("scope", "required") not in ("required", "optional", "excluded"):
            found.append(f"{name}: scope {row['scope']}")
        if not PURL.fullmatch(row["purl"]):
            found.append(f"{name}: malformed purl {row['purl']}")
        if [list(part) for part in row["licenses"]] != [["expression"]]:
            found.append(f"{name}: a license is one expression")
        elif not SPDX.fullmatch(row["licenses"][0]["expression"]):
            found.append(f"{name}: {row['licenses'][0]['expression']} is no SPDX expression")
        for row_hash in row.get("hashes", []):
            if row_hash["alg"] != "SHA-256" or not re.fullmatch(
                "[0-9a-f]{64}", str(row_hash["content"])
            ):
                found.append(f"{name}: malformed hash")
    refs = [row["bom-ref"] for row in components]
    found += [f"{ref} is listed twice" for ref in sorted(refs) if refs.count(ref) > 1]
    edges = [row["ref"] for row in bom["dependencies"]]
    if sorted(edges) != sorted(refs):
        found.append("dependencies do not list each component once")
    for row in bom["dependencies"]:
        used = row.get("dependsOn", [])
        found += [f"{row['ref']} depends on unlisted {ref}" for ref in used if ref not in refs]
        if len(set(used)) < len(used):
            found.append(f"{row['ref']} depends on something twice")
    return found


def _keys(name: str, row: dict[str, Any], keys: tuple[set[str], set[str]]) -> list[str]:
    required, optional = keys
    missing = sorted(required - set(row))
    return [f"{name} lacks {key}" for key in missing] + [
        f"{name} has {key}" for key in sorted(set(row) - required - optional)
    ]


def refs(prefix: str) -> dict[str, str]:
    """Versions by name of the components of one kind."""
    kind = f"pkg:{prefix}/"
    return {
        f"{c['name']}@{c['version']}": c["purl"] for c in BOM["components"] if kind in c["purl"]
    }


def rows(heading: str) -> set[str]:
    """name@version of each row of a table of the licenses page."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {f"{row[0]}@{row[1]}" for row in cells}


def test_sbom_is_current_and_deterministic(capsys: pytest.CaptureFixture[str]) -> None:
    code = sbom.main(["--check"])
    said = capsys.readouterr()
    if code == 2:
        pytest.skip(said.err.strip())
    assert (code, said.out) == (0, "")
    assert sbom.text() == sbom.text()


def test_sbom_is_well_formed() -> None:
    assert faults(BOM) == []


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (("components", 3, "type"), "libary", "type libary"),
        (("components", 3, "purl"), "cargo/x", "malformed purl"),
        (("components", 3, "maker"), "x", "has maker"),
        (("components", 3, "bom-ref"), "pkg:cargo/other@1", "each component once"),
        (("components", 3, "licenses"), [{"expression": "MIT/Zlib"}], "no SPDX expression"),
        (("components", 3, "hashes", 0, "content"), None, "malformed hash"),
        (("serialNumber",), "1", "malformed serialNumber"),
        (("specVersion",), "1.4", "not CycloneDX 1.6"),
    ],
)
def test_malformed_sbom_is_noticed(place: tuple[Any, ...], value: object, fault: str) -> None:
    changed = copy.deepcopy(BOM)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    assert [line for line in faults(changed) if fault in line]


def test_every_linked_crate_and_required_package_is_listed() -> None:
    assert set(refs("cargo")) == rows("In the wheels")
    assert set(refs("pypi")) == rows("Installed with the wheels")
    # The C library inside of zstd-sys.
    assert [name.partition("@")[0] for name in refs("generic")] == ["zstd"]


def test_versions_and_hashes_are_those_of_the_lock_files() -> None:
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    checksums = {f"{row['name']}@{row['version']}": row.get("checksum") for row in locked}
    crates = [row for row in BOM["components"] if row["purl"].startswith("pkg:cargo/")]
    for row in crates:
        assert row["hashes"][0]["content"] == checksums[f"{row['name']}@{row['version']}"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins = {f"{name}@{pin}" for name, pin in re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.M)}
    assert set(refs("pypi")) <= pins


def test_every_component_is_reached_from_the_package() -> None:
    edges = {row["ref"]: row.get("dependsOn", []) for row in BOM["dependencies"]}
    waiting = [BOM["metadata"]["component"]["bom-ref"]]
    reached: set[str] = set()
    while waiting:
        here = waiting.pop()
        if here not in reached:
            reached.add(here)
            waiting += edges[here]
    assert reached == set(edges)
    direct = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=]", line)[0] for line in direct["dependencies"]}
    root = edges[BOM["metadata"]["component"]["bom-ref"]]
    assert {ref[9:].partition("@")[0] for ref in root if ref.startswith("pkg:pypi/")} == names


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package without its Rust parts, which take minutes to build."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("src", "analyzers", "collectors", "queries", "reports", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so"))
    (folder / "docs").mkdir()
    for name in (
        "README.md",
        "LICENSE",
        "setup.py",
        "sbom.cdx.json",
        "docs/third-party-licenses.md",
    ):
        shutil.copyfile(ROOT / name, folder / name)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    without = re.sub(r"\[\[tool\.setuptools-rust\.[\s\S]*?\n\n", "", project)
    assert "[[tool.setuptools-rust" not in without
    (folder / "pyproject.toml").write_text(without, encoding="utf-8")
    return folder


def test_commands_of_setuptools_rust_are_not_replaced() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "cmdclass" not in project["tool"]["setuptools"]


@pytest.mark.parametrize("frontend", ["build", "pip"])
def test_wheel_contains_the_sbom(frontend: str, sources: Path, tmp_path: Path) -> None:
    words = {
        "build": ["build", "--wheel", "--no-isolation", "-o", str(tmp_path), str(sources)],
        "pip": ["pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path),
                str(sources)],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", *words[frontend]],
        cwd=tmp_path, env=os.environ | {"PIP_NO_INDEX": "1"}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    place = "schedlens-0.1.0.dist-info/sboms/schedlens.cdx.json"
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(place)
        record = archive.read("schedlens-0.1.0.dist-info/RECORD").decode()
    digest = hashlib.sha256(data).digest()
    assert digest == hashlib.sha256((ROOT / "sbom.cdx.json").read_bytes()).digest()
    listed = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert f"{place},sha256={listed},{len(data)}" in record.splitlines()
