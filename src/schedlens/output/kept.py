"""Files of the user's cache: bytes that take long to make and are the same in every run."""

from __future__ import annotations

import contextlib
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """The folder of the kept files: SCHEDLENS_CACHE_DIR, else the user's cache."""
    given = os.environ.get("SCHEDLENS_CACHE_DIR")
    if given:
        return Path(given)
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA")
        return (Path(cache) if cache else Path.home() / "AppData/Local") / "schedlens"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "schedlens"


def content(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """The bytes that `make` returns, from the kept file of this kind and key where there is one.

    The name of the file contains a checksum, so that a damaged one is made again. Files of the
    kind with other keys are removed. A cache that cannot be written is not an error.
    """
    place = folder()
    try:
        for path in place.glob(f"{kind}-{key}-*"):
            found = path.read_bytes()
            if path.name == _name(kind, key, found):
                return found
    except OSError:
        pass
    made = make()
    with contextlib.suppress(OSError):
        _keep(place / _name(kind, key, made), made)
        for other in place.glob(f"{kind}-*"):
            if other.name != _name(kind, key, made):
                other.unlink()
    return made


def _name(kind: str, key: str, found: bytes) -> str:
    return f"{kind}-{key}-{zlib.crc32(found):08x}"


def _keep(path: Path, made: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(made)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
