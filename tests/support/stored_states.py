"""States as tables, for tests that change rows which the views take from the slices."""

from __future__ import annotations

import duckdb

from schedlens.load import schema


def store(con: duckdb.DuckDBPyConnection) -> None:
    """Puts tables with the same rows in the place of the views `thread_state` and `cpu_state`."""
    for name in schema.STATES:
        con.execute(f"CREATE TABLE {name}_rows AS FROM {name}")
        con.execute(f"DROP VIEW {name}")
        con.execute(f"ALTER TABLE {name}_rows RENAME TO {name}")
