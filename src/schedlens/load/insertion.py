"""Inserts the rows of a query that may have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def insert(
    con: duckdb.DuckDBPyConnection,
    table: str,
    rows: str,
    parameters: Mapping[str, object] | None = None,
) -> None:
    """Inserts the rows of the query `rows` into `table` by name; without rows, does nothing.

    DuckDB 2.0.0 hides the rows of a large insert (more than a row group, several threads) behind an
    insert of no rows into the same table in the same transaction: no statement of any connection
    sees them until the file is opened again.
    """
    if con.execute(f"SELECT 1 FROM ({rows}) LIMIT 1", parameters).fetchone() is not None:
        con.execute(f"INSERT INTO {table} BY NAME {rows}", parameters)
