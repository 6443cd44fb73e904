"""Writes sbom.cdx.json, the bill of materials that each wheel contains (CycloneDX 1.6).

It lists the crates that are linked into the extension and the workload program, what these bundle,
and the Python packages that install with the wheel, at the versions of the lock files. It contains
no time and no random number, so equal lock files give equal bytes. With `--check` nothing is
written: exit status 1 if the file is stale. Exit status 2: cargo cannot list the crates.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from typing import Any

import licenses
from licenses import ROOT

FILE = ROOT / "sbom.cdx.json"
SPEC = "1.6"
# Why a component is listed, and for which systems.
RELATION, SYSTEMS = "schedlens:relation", "schedlens:systems"
LINKED, INSTALLED = "linked into the binaries", "installed as a dependency"

Json = dict[str, Any]


def content() -> Json:
    """The bill of materials as a JSON object."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    root = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{project['name']}@{project['version']}",
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "licenses": [{"expression": project["license"]}],
        "purl": f"pkg:pypi/{project['name']}@{project['version']}",
    }
    crates, edges, direct = _crates()
    packages, more_edges, required = _packages(project["name"])
    components = sorted([*crates, *packages], key=lambda row: str(row["bom-ref"]))
    edges |= more_edges
    edges[root["bom-ref"]] = direct | required
    bom: Json = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "build"}], "component": root},
        "components": components,
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(edges[ref])} if edges[ref] else {"ref": ref}
            for ref in sorted(edges)
        ],
    }
    # The number identifies this content: other content has another one.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True))
    return bom | {"serialNumber": f"urn:uuid:{serial}"}


def text() -> str:
    """The whole file."""
    return json.dumps(content(), indent=1, ensure_ascii=False) + "\n"


def _crates() -> tuple[list[Json], dict[str, set[str]], set[str]]:
    """Linked crates, what each of them uses, and those that this project uses directly."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    checksums = {(row["name"], row["version"]): row.get("checksum") for row in locked}
    found: list[Json] = []
    edges: dict[str, set[str]] = {}
    for crate in licenses.crates():
        ref = _crate_ref(crate.name, crate.version)
        found.append(
            _component(ref, crate.name, crate.version, crate.license, LINKED)
            | {"hashes": [{"alg": "SHA-256", "content": checksums[crate.name, crate.version]}]}
        )
        found[-1]["properties"].append({"name": SYSTEMS, "value": ", ".join(crate.targets)})
        edges[ref] = {_crate_ref(*used) for used in crate.uses}
        # A crate that contains sources of another project states its version this way.
        bundled = re.search(r"\+([a-z]+)\.(\d[\w.]*)$", crate.version)
        if bundled:
            inner = f"pkg:generic/{bundled[1]}@{bundled[2]}"
            found.append(_component(inner, bundled[1], bundled[2], crate.license, LINKED))
            edges[ref].add(inner)
            edges[inner] = set()
    direct = {_crate_ref(*used) for used in licenses.direct_crates()}
    return found, edges, direct


def _packages(name: str) -> tuple[list[Json], dict[str, set[str]], set[str]]:
    """Python packages, what each of them requires, and those that this project requires."""
    versions = {row[0]: row[1] for row in licenses.python_packages()}
    found: list[Json] = []
    edges: dict[str, set[str]] = {}
    for package, version, expression in licenses.python_packages():
        ref = f"pkg:pypi/{package}@{version}"
        found.append(_component(ref, package, version, expression, INSTALLED))
        inner = [] if package in licenses.ELSEWHERE else licenses.requirements(package)
        edges[ref] = {f"pkg:pypi/{other}@{versions[other]}" for other in inner}
    # Only click on Windows requires the packages for other systems.
    for package in licenses.ELSEWHERE:
        edges[f"pkg:pypi/click@{versions['click']}"].add(f"pkg:pypi/{package}@{versions[package]}")
    direct = {f"pkg:pypi/{other}@{versions[other]}" for other in licenses.requirements(name)}
    return found, edges, direct


def _crate_ref(name: str, version: str) -> str:
    # A package URL writes the plus sign of a version as %2B.
    return f"pkg:cargo/{name}@{version.replace('+', '%2B')}"


def _component(ref: str, name: str, version: str, expression: str, relation: str) -> Json:
    return {
        "type": "library",
        "bom-ref": ref,
        "name": name,
        "version": version,
        "scope": "required",
        # Older crates write "MIT/Apache-2.0", which is no SPDX expression.
        "licenses": [{"expression": expression.replace("/", " OR ")}],
        "purl": ref,
        "properties": [{"name": RELATION, "value": relation}],
    }


def main(arguments: list[str]) -> int:
    """Exit status."""
    return licenses.write(FILE, text, "sbom", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
