"""Writes the Arrow file of one table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc


def conformed(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows as a table of the database; columns that they lack are NULL."""
    count = rows.num_rows
    arrays = []
    for field in schema:
        if field.name == "trace_id":
            column = pa.array([1] * count, field.type)
        elif field.name in rows.schema.names:
            column = rows[field.name].cast(field.type)
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks()
        else:
            column = pa.nulls(count, field.type)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def write(file: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes batches of rows as they come; returns the number of rows."""
    count = 0
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(conformed(batch, schema))
            count += batch.num_rows
    return count
