"""Restores settings: kernel files, and values of a Windows power plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from schedlens.record.windows import boost


def put_back(contents: Sequence[tuple[str, str]]) -> list[str]:
    """Writes the texts to those settings that differ now; returns the settings that refuse them.

    A setting is a file or belongs to a Windows power plan.
    """
    failed = []
    for name, text in contents:
        back = boost.put_back(name, text) if boost.is_setting(name) else _write(Path(name), text)
        if not back:
            failed.append(name)
    return failed


def _write(file: Path, text: str) -> bool:
    """Whether the file has the text now; writes only if it has another."""
    try:
        if os.fsdecode(file.read_bytes()).strip() != text:
            file.write_text(f"{text}\n", encoding="utf-8")
        return os.fsdecode(file.read_bytes()).strip() == text
    except OSError:
        return False
