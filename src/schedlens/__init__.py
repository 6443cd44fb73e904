"""schedlens: explains how an operating system schedules threads.

`schedlens.open(path).sql("FROM sibling_overlap")` gives an Arrow table in a notebook;
`schedlens.events(file, name="sched_switch")` reads single events.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from schedlens.ask.analysis import Analysis

__version__ = "0.1.0"
__all__ = ["__version__", "events", "open"]


def open(path: str | Path) -> Analysis:
    """Opens an analyzed session, named by its folder or its analysis.duckdb, read-only.

    Also opens a lake, named by its folder or URL. Raises
    `schedlens.errors.NothingToReadError` if there is none.
    """
    from schedlens.lake import reading

    return reading.opened(path)


def events(
    paths: str | Path | Sequence[str | Path],
    *,
    provider: str | Sequence[str] = (),
    name: str | Sequence[str] = (),
    from_s: float | None = None,
    to_s: float | None = None,
) -> pa.RecordBatchReader:
    """The events of one recording with their decoded fields: see `schedlens.load.decoded.read`.

    `schedlens.events("game.etl", name="CSwitch", to_s=0.1).read_all()`
    """
    from schedlens.load import decoded

    return decoded.read(paths, provider=provider, name=name, from_s=from_s, to_s=to_s)
