"""Writes docs/third-party-licenses.md: what the wheels contain, and what installs with them.

Crates that are linked into the extension and the workload program come from `cargo metadata`,
Python packages from the metadata of this environment. Where a crate offers a choice that includes
Apache-2.0, this project takes that: its text is in LICENSE. All other texts are copied from the
crates. With `--check` nothing is written: exit status 1 if the file is stale. Exit status 2: cargo
cannot list the crates.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "third-party-licenses.md"
TARGETS = ("x86_64-unknown-linux-gnu", "x86_64-pc-windows-gnu", "aarch64-apple-darwin")
SYSTEMS = {"linux": "Linux", "windows": "Windows", "darwin": "macOS"}
OWN = ("schedlens-python", "schedlens-workloads")
# Run-time dependencies that only other systems install: their license by name.
ELSEWHERE = {"colorama": "BSD-3-Clause"}
# Classifiers of packages that state no license expression.
_CLASSIFIED = {"License :: OSI Approved :: MIT License": "MIT"}
_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*", "UNLICENSE*")


@dataclass
class Crate:
    """A crate in a binary: its license expression, and the folder with its sources.

    `uses` are the names and versions of the crates it links in turn.
    """

    name: str
    version: str
    license: str
    folder: Path
    targets: list[str] = field(default_factory=list)
    uses: set[tuple[str, str]] = field(default_factory=set)


class CargoError(Exception):
    """cargo does not list the crates: it is missing, or the sources cannot be downloaded."""


def crates() -> list[Crate]:
    """The crates that are linked into what the wheels contain."""
    found: dict[str, Crate] = {}
    for target in TARGETS:
        for package, used in _linked(cargo_metadata(target)):
            if package["source"] is None:
                continue
            crate = found.setdefault(
                package["id"],
                Crate(
                    package["name"],
                    package["version"],
                    package["license"] or "",
                    Path(package["manifest_path"]).parent,
                ),
            )
            crate.targets.append(SYSTEMS[target.split("-")[2]])
            crate.uses |= {(row["name"], row["version"]) for row in used}
    return sorted(found.values(), key=lambda crate: (crate.name, crate.version))


def direct_crates() -> set[tuple[str, str]]:
    """Names and versions of the linked crates that the crates of this project name."""
    return {
        (row["name"], row["version"])
        for target in TARGETS
        for package, used in _linked(cargo_metadata(target))
        if package["source"] is None
        for row in used
        if row["source"] is not None
    }


@functools.cache
def cargo_metadata(target: str) -> dict[str, Any]:
    words = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    try:
        done = subprocess.run(
            words,
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    except FileNotFoundError:
        raise CargoError("cargo is not installed") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise CargoError(f"cargo metadata failed: {lines[-1].strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _linked(metadata: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Crates that end up in a binary, each with those that it links.

    Build scripts, procedural macros and tests do not.
    """
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [id_ for id_, package in packages.items() if package["name"] in OWN]
    seen: set[str] = set()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        used = [
            dependency["pkg"]
            for dependency in nodes[here]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            and not _is_macro(packages[dependency["pkg"]])
        ]
        yield packages[here], [packages[id_] for id_ in used]
        waiting += used


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def python_packages() -> list[tuple[str, str, str]]:
    """Name, version and license of the run-time dependencies and of theirs."""
    found: dict[str, tuple[str, str, str]] = {}
    for name, expression in ELSEWHERE.items():
        found[name] = (name, _locked_version(name), expression)
    waiting = requirements("schedlens")
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        metadata = importlib.metadata.metadata(name)
        found[name] = (name, metadata["Version"], stated_license(metadata))
        waiting += requirements(name)
    return [found[name] for name in sorted(found)]


def requirements(name: str) -> list[str]:
    """Names that a package always requires; those for one system or an extra are left out."""
    lines = importlib.metadata.requires(name) or []
    return [_normal(line) for line in lines if ";" not in line]


def _normal(requirement: str) -> str:
    """The name in a requirement, as package indexes write it."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def stated_license(metadata: importlib.metadata.PackageMetadata) -> str:
    classifiers = metadata.get_all("Classifier") or []
    stated = (metadata.get_all("License-Expression") or metadata.get_all("License") or [""])[0]
    classified = [_CLASSIFIED[text] for text in classifiers if text in _CLASSIFIED]
    return str(stated or " AND ".join(classified) or "not stated")


def _locked_version(name: str) -> str:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    match = re.search(rf"^{re.escape(name)}==(\S+)", lock, re.MULTILINE)
    return match[1] if match else "not locked"


def taken(expression: str) -> str:
    """The license that this project takes of an expression: Apache-2.0 where it is offered."""
    alternatives = [part.strip() for part in re.split(r"\bOR\b|/", expression)]
    return "Apache-2.0" if "Apache-2.0" in alternatives else expression


def texts(crate: Crate) -> list[tuple[str, str]]:
    """Path and text of each license file that a crate contains."""
    below = [crate.folder, *sorted(path for path in crate.folder.iterdir() if path.is_dir())]
    paths = sorted({path for place in below for glob in _FILES for path in place.glob(glob)})
    return [
        (
            path.relative_to(crate.folder).as_posix(),
            path.read_text(encoding="utf-8", errors="replace"),
        )
        for path in paths
        if path.is_file()
    ]


def page() -> str:
    """The whole file."""
    linked = crates()
    lines = [
        "# Third-party licenses",
        "",
        "Written by `make licenses` from the lock files.",
        "",
        "## In the wheels",
        "",
        "Crates that are linked into the extension and the workload program. Where a crate offers "
        "Apache-2.0 among others, this project takes it; the text is in LICENSE. The Rust standard "
        "library is linked too (MIT OR Apache-2.0). Windows wheels also contain startup code of "
        "mingw-w64 (ZPL-2.1) and of GCC (GPL-3.0 with the runtime library exception).",
        "",
        "| crate | version | license | in wheels for |",
        "|---|---|---|---|",
    ]
    for crate in linked:
        systems = ", ".join(crate.targets)
        lines.append(f"| {crate.name} | {crate.version} | {crate.license} | {systems} |")
    lines += [
        "",
        "## Installed with the wheels",
        "",
        "Python packages that `pip` installs as dependencies, at the versions of "
        "requirements.lock. A report contains plotly.js, which is part of plotly.",
        "",
        "| package | version | license |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {version} | {text} |" for name, version, text in python_packages()]
    lines += ["", "## Texts", "", *_texts(linked)]
    return "\n".join(lines).rstrip() + "\n"


def _texts(linked: Iterable[Crate]) -> Iterator[str]:
    """License files of crates without Apache-2.0, and every NOTICE; equal texts once."""
    users: dict[str, list[str]] = {}
    for crate in linked:
        elsewhere = taken(crate.license) != "Apache-2.0"
        found = texts(crate)
        kept = [(name, text) for name, text in found if elsewhere or "NOTICE" in name.upper()]
        for name, text in kept:
            if "Apache License" in text[:200] or "GNU GENERAL PUBLIC" in text[:400]:
                continue
            body = "\n".join(line.rstrip() for line in text.strip().splitlines())
            users.setdefault(body, []).append(f"{crate.name} ({name})")
        if elsewhere and not kept:
            users.setdefault("", []).append(crate.name)
    for body, names in sorted(users.items(), key=lambda item: item[1]):
        yield f"### {', '.join(names)}"
        yield from ("", "```", *body.splitlines(), "```", "") if body else ("", "No text.", "")


def write(file: Path, make: Callable[[], str], target: str, arguments: list[str]) -> int:
    """Writes a file that follows from the lock files, or with `--check` only compares it.

    Exit status; 1: the file is stale. `target` is the one of the Makefile that writes it.
    """
    try:
        text = make()
    except CargoError as error:
        print(f"cannot list the crates: {error}", file=sys.stderr)
        return 2
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print(f"{file.relative_to(ROOT)} is stale: run `make {target}`")
        return 1
    file.write_text(text, encoding="utf-8", newline="\n")
    print(f"{file.relative_to(ROOT)} written")
    return 0


def main(arguments: list[str]) -> int:
    """Exit status."""
    return write(PAGE, page, "licenses", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
