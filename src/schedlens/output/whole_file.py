"""Files that are whole as soon as they exist: written aside, flushed, renamed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from schedlens.errors import NoSpaceError, SessionError


def write_json(path: Path, value: dict[str, Any]) -> None:
    """One JSON object as UTF-8; raises `NoSpaceError` or `SessionError`, and then leaves no file.

    A file of that name is replaced in one step, so a reader sees the old text or the new one.
    """
    text = json.dumps(value, indent=1) + "\n"
    write(path, lambda out: _all(out, text.encode("utf-8", "surrogateescape")))


def _all(out: BinaryIO, data: bytes) -> None:
    out.write(data)


def write(path: Path, fill: Callable[[BinaryIO], None]) -> None:
    """A file with what `fill` writes; raises like `write_json`, and leaves no part of it."""
    aside = path.with_name(path.name + ".part")
    try:
        with aside.open("wb") as out:
            fill(out)
            out.flush()
            os.fsync(out.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise cannot_write(path, error) from None
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; raises `SessionError` where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SessionError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise SessionError(f"{path} holds no JSON object")
    return value


def cannot_write(path: Path, error: OSError) -> SessionError | NoSpaceError:
    """The error of our own that stands for a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpaceError(f"no space left on the disk of {path.parent}: free some, then go on")
    return SessionError(
        f"{path} cannot be written: {error.strerror or error}; choose a place that can be"
    )
