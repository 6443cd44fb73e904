"""Atomic writes: a temporary file is written, flushed, and renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from schedlens.errors import NoSpaceError, SessionError

# Ends the name of a file that is being written, after the id of the process that writes it: two
# processes that write one file must not write to the same place.
PART = ".part"


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes a JSON object as UTF-8. Raises `NoSpaceError` or `SessionError` and leaves no file.

    Replaces an existing file in one step, so a reader sees the old text or the new one.
    """
    text = json.dumps(value, indent=1) + "\n"
    write(path, lambda out: _all(out, text.encode("utf-8", "surrogateescape")))


def write_text(path: Path, text: str) -> None:
    """A file with this text as UTF-8; raises like `write_json`, and leaves no part of it."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: Path, data: bytes) -> None:
    """A file with these bytes; raises like `write_json`, and leaves no part of it."""
    write(path, lambda out: _all(out, data))


def _all(out: BinaryIO, data: bytes) -> None:
    out.write(data)


def write(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    """A file with what `fill` writes; raises like `write_json`, and leaves no part of it."""
    aside = path.with_name(f"{path.name}.{os.getpid()}{PART}")
    try:
        with aside.open("wb") as out:
            fill(out)
            out.flush()
            os.fsync(out.fileno())
        aside.replace(path)
    except OSError as error:
        _discard(aside)
        raise cannot_write(path, error) from None
    except BaseException:
        _discard(aside)
        raise


def flush(path: Path) -> None:
    """Waits until the contents of a file are on its disk. Raises `OSError`."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _discard(aside: Path) -> None:
    # On a read-only disk this fails as well, and must not hide why the file was not written.
    with contextlib.suppress(OSError):
        aside.unlink()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises `SessionError` if there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SessionError(f"cannot read {path}: {error}") from None
    if not isinstance(value, dict):
        raise SessionError(f"{path} does not contain a JSON object")
    return value


def cannot_write(path: Path, error: OSError) -> SessionError | NoSpaceError:
    """The error to raise for a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(f"no space left on the disk of {path.parent}. Free some and retry")
    return SessionError(f"cannot write {path}: {error.strerror or error}. Choose a writable place")
