"""Recordings outside the repository, and what is known about them.

They are in `shared/` next to the checkout or in it, or in the folder that `SCHEDLENS_SHARED` names.
fixtures/README.md says which of them are public and how to get them. A test that needs one skips
without it; the run counts those skips in its last lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "fixtures" / "PUBLIC_RECORDINGS.json"
# Each reason for such a skip contains these words; nothing else does.
MISSING = "is not part of the repository"


def folder() -> Path:
    """The folder of these files; it may be absent."""
    named = os.environ.get("SCHEDLENS_SHARED")
    if named:
        return Path(named)
    places = (ROOT.parent / "shared", ROOT / "shared")
    return next((place for place in places if (place / "etw").is_dir()), places[0])


def reason(name: str) -> str:
    """Why a test without that file skips."""
    return f"{name} {MISSING}, and no copy was found"


def need(*names: str) -> Path:
    """The folder of these files; skips the test if one of them is missing."""
    place = folder()
    for name in names:
        if not (place / name).exists():
            pytest.skip(reason(name))
    return place


def needs(name: str) -> pytest.MarkDecorator:
    """Skips the test if that file or folder is missing."""
    return pytest.mark.skipif(not (folder() / name).exists(), reason=reason(name))


def public() -> list[dict[str, Any]]:
    """The public ones: path below the folder, origin, and sha256 of the content."""
    found: list[dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))["recordings"]
    return found


def summary(skips: Iterable[str]) -> str | None:
    """The line for a run with these reasons of skips; None if no file was missing."""
    count = sum(MISSING in why for why in skips)
    if not count:
        return None
    return (
        f"{count} {'test' if count == 1 else 'tests'} skipped: recordings that the repository does "
        f"not contain are missing. To get them: {MANIFEST.relative_to(ROOT)} lists the public ones "
        f"with their origin, and `python tools/public_recordings.py FOLDER` checks your copies "
        f'(fixtures/README.md, "Recordings of others").'
    )
