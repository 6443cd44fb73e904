"""The command `collect` and its leftovers, for tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from conftest import command

Json = dict[str, Any]


def collect(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return command("collect", *arguments, check=False, **more)


def read(path: Path) -> Json:
    value: Json = json.loads(path.read_text(encoding="utf-8"))
    return value


def processes() -> list[str]:
    """Command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found
