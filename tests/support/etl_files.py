"""Real and generated .etl files outside the repository, and what other readers found in them."""

from __future__ import annotations

import functools
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import shared_files

ROOT = shared_files.ROOT


def folder() -> Path:
    """The folder with `corpus/`, `synthetic/` and `truth/`; it may be absent."""
    return shared_files.folder() / "etw"


def names(part: str) -> list[str]:
    """Files of `corpus`, `synthetic` or `more` by name, without `.xz`; the public ones always."""
    there = {path.name.removesuffix(".xz") for path in (folder() / part).glob("*.etl.xz")}
    return sorted(there | set(public(part)))


def public(part: str) -> list[str]:
    """Those of them that are public, present or not."""
    paths = (Path(recording["path"]) for recording in shared_files.public())
    below = Path("etw") / part
    return sorted(path.name.removesuffix(".xz") for path in paths if path.parent == below)


def needs(part: str) -> pytest.MarkDecorator:
    """Skips if none of the files is present; a single missing one skips only its tests."""
    absent = not any((folder() / part).glob("*.etl.xz"))
    return pytest.mark.skipif(absent, reason=shared_files.reason(f"etw/{part}"))


@functools.cache
def content(name: str) -> bytes:
    """The unpacked bytes of a file."""
    part = "synthetic" if name.startswith("synth") else "corpus"
    packed = f"etw/{part}/{name}.xz"
    return lzma.decompress((shared_files.need(packed) / packed).read_bytes())


@functools.cache
def truth(name: str) -> dict[str, Any]:
    """What an independent reader found in a file, or the script of a generated one."""
    if name.startswith("synth"):
        path = "etw/synthetic/" + name.replace(".etl", ".expected.json")
    else:
        path = f"etw/truth/{name}.json"
    found: dict[str, Any] = json.loads((shared_files.need(path) / path).read_text())
    return found


def written(name: str, folder: Path) -> Path:
    """A file on disk with that content."""
    path = folder / name
    path.write_bytes(content(name))
    return path
