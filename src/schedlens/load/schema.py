"""The tables, macros, and views of states: declared once in `queries/schema/`, with comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from schedlens.errors import QueryFileError

if TYPE_CHECKING:
    import duckdb

# The views of queries/schema/states.sql.
STATES = ("thread_state", "cpu_state")

_COMMENT = re.compile(r"-- (.+)")
_DECLARED = re.compile(r"^CREATE (?:TABLE|VIEW) (\w+) \(", re.MULTILINE)


def folder() -> Path:
    """The folder with the SQL files, in the installed package or the source tree."""
    return Path(str(resources.files("schedlens.queries")))


def schema_files() -> list[Path]:
    """The files that declare macros and tables, in order of execution."""
    names = ("macros", "base", "stacks", "derived", "states", "sweeps", "summaries", "experiments")
    return [folder() / "schema" / f"{name}.sql" for name in names]


def lake_file() -> Path:
    """The file that declares the tables that only a lake has."""
    return folder() / "schema" / "lake.sql"


@cache
def table_names() -> frozenset[str]:
    """The names of all tables and views of states, those that only a lake has included."""
    files = [*schema_files(), lake_file()]
    return frozenset(
        name for path in files for name in _DECLARED.findall(path.read_text(encoding="utf-8"))
    )


def create(
    con: duckdb.DuckDBPyConnection, declared: Sequence[Path] | None = None
) -> dict[str, Path]:
    """Fills an empty database; returns the file of each table and view, in order.

    `declared` are the files to execute, by default `schema_files()`. The comment after each column
    becomes its documentation. Raises `QueryFileError` if a column has none.
    """
    files: dict[str, Path] = {}
    known = _new_tables(con, ())
    for path in schema_files() if declared is None else declared:
        statements = con.extract_statements(path.read_text(encoding="utf-8"))
        for statement in statements:
            con.execute(statement)
        tables = _new_tables(con, [*known, *files])
        for (table, columns), statement in zip(tables.items(), statements, strict=bool(tables)):
            files[table] = path
            # What precedes and follows the columns introduces this or the next table: versions of
            # DuckDB differ in where a statement begins.
            columns_text = statement.query.partition("(\n")[2].partition("\n)")[0]
            texts = _COMMENT.findall(columns_text)
            if len(texts) != len(columns):
                raise QueryFileError(
                    path.name, f"{table} has {len(columns)} columns, but {len(texts)} comments"
                )
            for column, text in zip(columns, texts, strict=True):
                con.execute(f'COMMENT ON COLUMN {table}."{column}" IS {literal(text)}')
    return files


def _new_tables(con: duckdb.DuckDBPyConnection, known: Iterable[str]) -> dict[str, list[str]]:
    """The columns of each table or view that is not in `known`, in order of creation."""
    found: dict[str, list[str]] = {}
    for table, column in con.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal "
        "AND database_name = current_database() AND NOT list_contains(?, table_name) "
        "ORDER BY table_oid, column_index",
        [list(known)],
    ).fetchall():
        found.setdefault(table, []).append(column)
    return found


def literal(text: str) -> str:
    """The text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def value(given: object) -> str:
    """A text, a number, a truth value, or None as SQL."""
    if given is None:
        return "NULL"
    return literal(given) if isinstance(given, str) else str(given)
