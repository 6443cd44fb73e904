"""Cuts the batches of a table into the row groups that DuckDB stores.

One thread compresses a row group that arrives in one piece, and writes it once. From smaller
pieces, DuckDB first makes row groups of odd lengths and packs them again at the checkpoint.
"""

from __future__ import annotations

import pyarrow as pa

# Rows of a row group: DuckDB's own number.
ROWS = 122_880


class RowGroups:
    """Collects batches of one schema and returns them as batches of `rows` rows.

    `at_once` is how many of them DuckDB should get at a time. The first times it gets fewer, so
    that it has work as soon as there is any.
    """

    def __init__(self, at_once: int = 1, rows: int = ROWS) -> None:
        self._rows = rows
        self._at_once = at_once
        self._next = 1
        self._full: list[pa.RecordBatch] = []
        self._begun: list[pa.RecordBatch] = []
        self._begun_rows = 0
        self._nulls: dict[pa.DataType, pa.Array] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Appends a batch of any length."""
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, self._rows - self._begun_rows)
            start += part.num_rows
            self._begun.append(part)
            self._begun_rows += part.num_rows
            if self._begun_rows == self._rows:
                self._full.append(self._joined())

    @property
    def are_due(self) -> bool:
        """Whether enough full row groups wait to be taken."""
        return len(self._full) >= min(self._at_once, self._next)

    def take_full(self) -> list[pa.RecordBatch]:
        """All full row groups."""
        full, self._full = self._full, []
        self._next *= 2
        return full

    def take_all(self) -> list[pa.RecordBatch]:
        """All rows; the last batch may be shorter than a row group."""
        if self._begun_rows:
            self._full.append(self._joined())
        return self.take_full()

    def _joined(self) -> pa.RecordBatch:
        begun, rows = self._begun, self._begun_rows
        self._begun, self._begun_rows = [], 0
        if len(begun) == 1:
            return begun[0]
        columns = [
            self._joined_column([batch.column(place) for batch in begun], rows)
            for place in range(begun[0].num_columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=begun[0].schema)

    def _joined_column(self, parts: list[pa.Array], rows: int) -> pa.Array:
        """The parts in one array. Half of the columns of switches have no values on one system."""
        if any(part.null_count < len(part) for part in parts):
            return pa.concat_arrays(parts)
        kind = parts[0].type
        if kind not in self._nulls:
            self._nulls[kind] = pa.nulls(self._rows, kind)
        return self._nulls[kind].slice(0, rows)
