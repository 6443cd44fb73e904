"""Imports of packages that the default installation leaves out."""

from __future__ import annotations

import importlib
from typing import Any

from schedlens.errors import MissingExtraError


def needed(module: str, extra: str) -> Any:
    """The module; raises `MissingExtraError` with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(module.partition(".")[0], extra) from None
