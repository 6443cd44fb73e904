"""schedlens: explains how an operating system schedules threads.

`schedlens.open(path)` opens a session or any trace: tables as Arrow, Polars and pandas, findings
as objects, and the figures of the report. `schedlens.analyze(path)` analyzes with options,
`schedlens.compare(a, b)` compares, and `schedlens.events(file, name="sched_switch")` reads single
events. See docs/python.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

    from schedlens.api.entry import UnreadWarning as UnreadWarning
    from schedlens.api.notebook import Analysis as Analysis
    from schedlens.ask.stored_findings import StoredFinding as StoredFinding
    from schedlens.differences.contrast import Comparison as Comparison

__version__ = "0.1.0"
__all__ = [
    "Analysis",
    "Comparison",
    "StoredFinding",
    "UnreadWarning",
    "__version__",
    "analyze",
    "compare",
    "events",
    "open",
]


def open(path: str | Path) -> Analysis:
    """Opens an analysis, a lake, or recordings, read only.

    `path` is a session folder or an analysis.duckdb that `analyze` wrote, a lake (folder or URL),
    or recordings: a trace of any format that `analyze` reads, or a folder of them. Recordings
    without an analysis are analyzed first; the result is kept in the user's cache until a file
    changes, and nothing is written next to them. Warns with `UnreadWarning` for each part that
    could not be read. Raises `schedlens.errors.SchedlensError`, such as `NothingToReadError`.
    """
    from schedlens.api import entry

    return entry.opened(path)


def analyze(
    paths: str | Path | Sequence[str | Path],
    *,
    output: str | Path | None = None,
    process: str | None = None,
    topology: str | Path | None = None,
    from_s: float | None = None,
    to_s: float | None = None,
    only: Sequence[str] = (),
    max_memory: str | None = None,
    report: bool = False,
) -> Analysis:
    """Analyzes recordings as the command `analyze` does, and opens the result.

    Without `output`, the result is kept in the user's cache, and made only if it is not there; with
    it, `output`/analysis.duckdb is replaced, and with `report` also `output`/report.html. `process`
    is the process that the questions are about, `from_s` and `to_s` the window in s of each trace,
    `only` names analyzers, `topology` is a JSON file that describes the machine, and `max_memory` a
    size such as 2G. Warns and raises like `open`.
    """
    from schedlens.api import entry

    return entry.analyzed(
        paths, output=output, process=process, topology=topology, from_s=from_s, to_s=to_s,
        only=only, max_memory=max_memory, report=report,
    )  # fmt: skip


def compare(
    a: str | Path | Sequence[str | Path],
    b: str | Path | Sequence[str | Path],
    *,
    processes: Sequence[str] = (),
    quantities: Sequence[str] = (),
    align: Literal["step", "all"] = "step",
) -> Comparison:
    """Compares the recordings `b` with the baseline `a`, as the command `compare` does.

    Each side is one or several sessions or recordings, several of one step being repeats.
    `processes` are those to compare, by default the busiest; `quantities` names those to compare,
    by default all. With `align="all"`, all recordings of a side are repeats of one step. Raises
    `schedlens.errors.SchedlensError` if nothing can be compared. Needs
    `pip install schedlens[compare]`.
    """
    from schedlens.differences import contrast

    return contrast.compare(a, b, processes=processes, quantities=quantities, align=align)


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


def __getattr__(name: str) -> Any:
    """The types of the API, imported when they are used: `import schedlens` loads no library."""
    places = {
        "Analysis": "schedlens.api.notebook",
        "Comparison": "schedlens.differences.contrast",
        "StoredFinding": "schedlens.ask.stored_findings",
        "UnreadWarning": "schedlens.api.entry",
    }
    if name not in places:
        raise AttributeError(f"module 'schedlens' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(places[name]), name)
