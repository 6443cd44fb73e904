"""CSV files with a line of names: whether one holds certain columns, and its rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlens.errors import DamagedTraceError, NotATraceError

_HEAD_BYTES = 4096


def names(path: Path) -> set[str]:
    """The names of the first line in lower case; none where the file cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return set()
    first = head.decode("utf-8-sig", "replace").split("\n", 1)[0]
    return {name.strip() for name in first.lower().split(",")}


@contextmanager
def opened(path: Path, again: str) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """The names in lower case in their order, and the rows behind them.

    Raises `NotATraceError` where the file cannot be read, `DamagedTraceError` where it is no CSV;
    `again` says what to do then.
    """
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.reader(file)
            yield [name.strip().lower() for name in next(rows, [])], rows
    except OSError as error:
        raise NotATraceError(f"{path} cannot be read: {error.strerror}") from None
    except csv.Error as error:
        raise DamagedTraceError(f"{path}: {error}: {again}") from None
