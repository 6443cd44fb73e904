"""DuckDB, Arrow and the documentation have the same tables, from one declaration."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from schedlens import _decoders
from schedlens.errors import QueryFileError
from schedlens.load import schema

TYPES = {
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "VARCHAR": pa.string(),
}


def arrow(kind: str) -> pa.DataType:
    """The Arrow type of a column of DuckDB."""
    return pa.list_(TYPES[kind[:-2]]) if kind.endswith("[]") else TYPES[kind]


def plain(kind: pa.DataType) -> pa.DataType:
    """A dictionary's type of values; any other type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def test_arrow_schemas_are_those_of_duckdb() -> None:
    with duckdb.connect() as con:
        files = schema.create(con)
        rows = con.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() "
            "WHERE NOT internal ORDER BY table_name, column_index"
        ).fetchall()
    # Only Python writes what experiments measure, and nobody writes the views of states.
    wanted: dict[str, list[tuple[str, pa.DataType, bool]]] = {
        table: [] for table, path in files.items()
        if path.name not in ("experiments.sql", "states.sql")
    }  # fmt: skip
    for table, column, kind, nullable in rows:
        if table in wanted:
            wanted[table].append((column, arrow(kind), nullable))
    found = {
        table: [(field.name, plain(field.type), field.nullable) for field in fields]
        for table, fields in _decoders.schemas().items()
    }
    assert found == wanted
    assert len(found) > 40


def test_names_are_those_of_all_tables_and_views() -> None:
    with duckdb.connect() as con:
        made = {*schema.create(con), *schema.create(con, [schema.lake_file()])}
    assert schema.table_names() == made
    assert set(schema.STATES) < made


def test_comment_documents_the_column_on_its_line() -> None:
    with duckdb.connect() as con:
        schema.create(con)
        comments = dict(
            con.execute(
                "SELECT table_name || '.' || column_name, comment FROM duckdb_columns() "
                "WHERE NOT internal"
            ).fetchall()
        )
    assert comments["cpu.smt_index"] == "Rank among the siblings of its core, from 0."
    # A comment above the next table follows it.
    assert comments["analyzer_outcome.record_with"].endswith("NULL: none is known.")
    assert comments["analysis_window.trace_id"] == "Recording."
    assert None not in comments.values()


def test_column_without_a_comment_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "short.sql"
    file.write_text("CREATE TABLE short (\n  one BIGINT, -- One.\n  two BIGINT\n);\n")
    monkeypatch.setattr(schema, "schema_files", lambda: [file])
    with duckdb.connect() as con, pytest.raises(QueryFileError, match="2 columns, but 1 comments"):
        schema.create(con)
