"""Whether schedlens may trace the kernel."""

from __future__ import annotations

import ctypes


def elevated() -> bool | None:
    """Whether it runs as administrator; None if the system is not Windows."""
    libraries = getattr(ctypes, "windll", None)
    return None if libraries is None else bool(libraries.shell32.IsUserAnAdmin())
