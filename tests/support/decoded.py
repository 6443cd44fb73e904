"""A recording through the decoder alone, without a database."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from schedlens import _decoders


def decoded(trace: Path) -> dict[str, pa.Table]:
    """All rows of a recording by table, as the decoder passes them to the store."""
    batches: dict[str, list[pa.RecordBatch]] = {}
    with _decoders.load(str(trace), 1, None, None, trace.name) as loader:
        for table, batch in loader:
            batches.setdefault(table, []).append(batch)
    return {table: pa.Table.from_batches(rows) for table, rows in batches.items()}


def record_counts(tables: dict[str, pa.Table]) -> dict[str, int]:
    """Rows of `record_count` that are not zero."""
    rows = tables["record_count"].to_pylist()
    return {row["record"]: row["count"] for row in rows if row["count"]}
