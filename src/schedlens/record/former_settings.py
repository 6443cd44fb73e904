"""Puts settings back: files of the kernel, and values of a power plan of Windows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from schedlens.record.windows import boost


def put_back(contents: Sequence[tuple[str, str]]) -> list[str]:
    """Writes the texts into the settings that hold others now; those that do not take them.

    A setting is a file, or one of a power plan of Windows.
    """
    failed = []
    for name, text in contents:
        back = boost.put_back(name, text) if boost.is_setting(name) else _write(Path(name), text)
        if not back:
            failed.append(name)
    return failed


def _write(file: Path, text: str) -> bool:
    """Whether the file holds the text now; it is written only where it holds another."""
    try:
        if os.fsdecode(file.read_bytes()).strip() != text:
            file.write_text(f"{text}\n", encoding="utf-8")
        return os.fsdecode(file.read_bytes()).strip() == text
    except OSError:
        return False
