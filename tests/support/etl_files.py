"""Real and generated .etl files that lie beside the repository, and what others found in them."""

from __future__ import annotations

import functools
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = (ROOT.parent / "shared" / "etw", ROOT / "shared" / "etw")


def folder() -> Path | None:
    """The folder with `corpus/`, `synthetic/` and `truth/`, where it is there."""
    return next((place for place in PLACES if place.is_dir()), None)


def names(part: str) -> list[str]:
    """Files of `corpus` or `synthetic` by name, without `.xz`."""
    place = folder()
    if place is None:
        return []
    return sorted(path.name.removesuffix(".xz") for path in (place / part).glob("*.etl.xz"))


def needs(part: str) -> pytest.MarkDecorator:
    """Skips where the files are not at hand."""
    return pytest.mark.skipif(not names(part), reason=f"no shared/etw/{part} beside the repository")


@functools.cache
def content(name: str) -> bytes:
    """The unpacked bytes of a file."""
    place = folder()
    assert place is not None
    part = "synthetic" if name.startswith("synth") else "corpus"
    return lzma.decompress((place / part / f"{name}.xz").read_bytes())


@functools.cache
def truth(name: str) -> dict[str, Any]:
    """What an independent walk found in a file, or what a generated one was made of."""
    place = folder()
    assert place is not None
    if name.startswith("synth"):
        path = place / "synthetic" / name.replace(".etl", ".expected.json")
    else:
        path = place / "truth" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def written(name: str, folder: Path) -> Path:
    """A file on disk with that content."""
    path = folder / name
    path.write_bytes(content(name))
    return path
