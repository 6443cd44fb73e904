"""Finds Perfetto's trace_processor and opens a recording in it."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from schedlens.errors import DamagedTraceError, MissingExtraError, RecorderError
from schedlens.load.perfetto.child import Engine

# Names the program; before the PATH and the download of the package.
VARIABLE = "SCHEDLENS_TRACE_PROCESSOR"
_PROGRAM = "trace_processor_shell"
# The package downloads the program that it was tested with, checks its hash, and keeps it.
_DOWNLOAD = (
    "from perfetto.trace_processor.platform import PlatformDelegate as p\n"
    "print(p().get_shell_path(bin_path=None))"
)
# Rows that are Python objects at once.
_CHUNK_ROWS = 65_536
_HOW_TO_GET_IT = (
    f"install {_PROGRAM} (https://get.perfetto.dev/trace_processor) on the PATH, or name it with "
    f"{VARIABLE}"
)


class Processor:
    """A recording in trace_processor."""

    def __init__(self, path: Path, client: Any) -> None:
        self._path, self._client = path, client

    def table(self, sql: str, schema: pa.Schema) -> pa.Table:
        """The rows of a query, as columns of these types. Raises `DamagedTraceError`."""
        chunks: list[pa.RecordBatch] = []
        try:
            rows = iter(self._client.query(sql))
            while some := list(itertools.islice(rows, _CHUNK_ROWS)):
                columns = [
                    pa.array([getattr(row, field.name) for row in some], field.type)
                    for field in schema
                ]
                chunks.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        except Exception as error:
            raise DamagedTraceError(
                f"{self._path}: trace_processor cannot answer: {_line(error)}"
            ) from None
        return pa.Table.from_batches(chunks, schema=schema)

    def has(self, table: str) -> bool:
        """Whether this version has a table or a view of that name."""
        try:
            self._client.query(f"SELECT 1 AS one FROM {table} LIMIT 1")
        except Exception:
            return False
        return True


@contextmanager
def opened(path: Path) -> Iterator[Processor]:
    """The recording, until the block ends.

    Raises `MissingExtraError`, `RecorderError` if there is no program or it does not start, or
    `DamagedTraceError` if it cannot read the recording.
    """
    try:
        from perfetto.trace_processor import TraceProcessor
    except ImportError:
        raise MissingExtraError("perfetto", "perfetto") from None
    with Engine(_program(path), _HOW_TO_GET_IT) as engine:
        try:
            client = TraceProcessor(trace=str(path), addr=engine.address)
        except Exception as error:
            raise DamagedTraceError(
                f"{path}: trace_processor cannot read it: {_line(error)}"
            ) from None
        try:
            yield Processor(path, client)
        finally:
            client.close()


def _program(path: Path) -> str:
    """The program: as named, on the PATH, or downloaded by the package (once, then kept)."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise RecorderError(f"{VARIABLE} names {named}, which does not exist: correct it")
        return named
    found = shutil.which(_PROGRAM)
    if found:
        return found
    # In a process of its own: the package and curl print what they do.
    done = subprocess.run(
        [sys.executable, "-c", _DOWNLOAD], capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and done.stdout.strip():
        return done.stdout.splitlines()[-1]
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    reason = next((line for line in said if line.startswith("curl:")), (said or ["no reason"])[-1])
    raise RecorderError(
        f"{path}: needs Perfetto's {_PROGRAM}, which is not installed and could not be downloaded "
        f"({reason[:200]}): {_HOW_TO_GET_IT}"
    )


def _line(error: BaseException) -> str:
    """The first line that says something, without Python's decoration."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
