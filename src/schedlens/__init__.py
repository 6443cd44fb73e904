"""schedlens: explains how an operating system schedules threads.

`schedlens.open(path).sql("FROM sibling_overlap")` gives an Arrow table in a notebook.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlens.ask.analysis import Analysis

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(path: str | Path) -> Analysis:
    """An analyzed session: its folder, or its analysis.duckdb, read only.

    Raises `schedlens.errors.NothingToReadError` where there is none.
    """
    from schedlens.ask.analysis import Analysis

    return Analysis(Path(path))
