"""Reads CSV files with a header line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from schedlens.errors import DamagedTraceError, NotATraceError
from schedlens.output import byte_order_mark

_HEAD_BYTES = 4096
# Characters; far above any row.
_MOST_LINE = 1 << 20


def names(path: Path) -> set[str]:
    """The column names in lower case; none if the file cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return set()
    first = byte_order_mark.decoded(head).split("\n", 1)[0]
    return {name.strip() for name in first.lower().split(",")}


def _lines(file: TextIO, path: Path, again: str) -> Iterator[str]:
    """The lines; one that no recorder writes is refused before it is in memory."""
    while line := file.readline(_MOST_LINE):
        if len(line) == _MOST_LINE and not line.endswith("\n"):
            raise DamagedTraceError(
                f"{path}: has a line of more than {_MOST_LINE >> 20} MiB: {again}"
            )
        yield line


@contextmanager
def opened(path: Path, again: str) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """The column names in lower case in file order, and the rows.

    Raises `NotATraceError` if the file cannot be read, `DamagedTraceError` if it is not CSV;
    `again` is the advice in the message.
    """
    try:
        with path.open("rb") as file:
            encoding = byte_order_mark.encoding(file.read(4))
        with path.open(encoding=encoding, errors="replace", newline="") as file:
            rows = csv.reader(_lines(file, path, again))
            yield [name.strip().lower() for name in next(rows, [])], rows
    except OSError as error:
        raise NotATraceError(f"cannot read {path}: {error.strerror}") from None
    except csv.Error as error:
        raise DamagedTraceError(f"{path}: {error}: {again}") from None
