"""The tables: declared once in `queries/schema/`, created with their comments."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def folder() -> Path:
    """The folder with the SQL files, in the installed package or the source tree."""
    return Path(str(resources.files("schedlens.queries")))


def schema_files() -> list[Path]:
    """The files that declare the tables, in order of execution."""
    return [
        folder() / "schema" / f"{name}.sql" for name in ("base", "derived", "sweeps", "experiments")
    ]


def create(con: duckdb.DuckDBPyConnection) -> None:
    """Creates the tables; the comment after each column becomes its documentation."""
    for path in schema_files():
        sql = path.read_text(encoding="utf-8")
        con.execute(sql)
        table = ""
        for line in sql.splitlines():
            code, _, text = line.partition("-- ")
            if code.startswith("CREATE TABLE "):
                table = code.split()[2]
            elif text and code.startswith("  "):
                con.execute(f'COMMENT ON COLUMN {table}."{code.split()[0]}" IS {literal(text)}')


def literal(text: str) -> str:
    """The text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"
