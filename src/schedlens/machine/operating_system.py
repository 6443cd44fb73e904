"""The operating system this program runs on."""

from __future__ import annotations

import sys


def name() -> str:
    """`windows`, or `linux` for any other system."""
    return "windows" if sys.platform == "win32" else "linux"
