"""Debug files and PDB files that were fetched, in a folder of limited size."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlens.output import kept

# Its size in MB, where the default does not suit.
VARIABLE = "SCHEDLENS_SYMBOL_CACHE_MB"
_DEFAULT_MB = 4096
_PARTIAL = ".partial-"


def pdbs() -> Path:
    """PDB files, laid out as a symbol store: `NAME/ID/NAME`."""
    return kept.folder() / "symbols" / "pdb"


def debug_files() -> Path:
    """Files by build id, laid out as the cache of a debuginfod client: `ID/debuginfo`."""
    return kept.folder() / "symbols" / "debuginfod"


def most_bytes() -> int:
    """What all files in the cache may take."""
    with contextlib.suppress(ValueError):
        return max(0, int(os.environ.get(VARIABLE, _DEFAULT_MB))) << 20
    return _DEFAULT_MB << 20


@contextmanager
def added(path: Path) -> Iterator[Callable[[bytes], bool]]:
    """Adds a file: what is written appears under its name at the end, if nothing failed.

    Yields a function that appends bytes, and returns whether the cache has room for them. Files
    that were added first make room.
    """
    most = most_bytes()
    size = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=_PARTIAL, dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:

            def append(part: bytes) -> bool:
                nonlocal size
                size += len(part)
                if size > most:
                    return False
                file.write(part)
                return True

            yield append
        if 0 < size <= most:
            _make_room(most - size)
            aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _make_room(most: int) -> None:
    """Removes the files that were added first until the others take at most that many bytes."""
    found = []
    for folder in (pdbs(), debug_files()):
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.name.startswith(_PARTIAL):
                    state = path.stat()
                    found.append((state.st_mtime, state.st_size, path))
    taken = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if taken <= most:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            taken -= size
            path.parent.rmdir()
