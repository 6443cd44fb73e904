"""Runs SELECT statements on an analysis such that they reach nothing but its tables.

Three things keep a statement inside: the database is opened read-only, DuckDB's file access and
extensions are switched off and that configuration is locked, and the syntax tree is checked before
it runs. The last is needed because DuckDB lets a statement read the file of its own database.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from schedlens.errors import AccessError, DatabaseError
from schedlens.load import store

MOST_CHARACTERS = 4000
# Memory of all statements; nothing is spilled to disk.
_MEMORY = 2 << 30
# Rows kept of an answer; the rest is counted.
_MOST_ROWS = 400
_BATCH = 1024
_BATCH_BYTES = 16 << 20
_TOO_LARGE = "the rows are too large: select fewer columns, or the begin of texts with left()"

# In this order: the last one locks those before it.
_SETTINGS = (
    "SET temp_directory = ''",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    # Otherwise a table may be a variable of this program.
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
# Table functions of DuckDB that read only memory and the catalog; all others are refused.
_TABLE_FUNCTIONS = {
    "duckdb_columns", "duckdb_functions", "duckdb_tables", "duckdb_views", "generate_series",
    "range", "unnest",
}  # fmt: skip
_REFUSED_FUNCTION = re.compile(
    r"(read|write|copy|load|install|getenv|attach)(_.*)?$", re.IGNORECASE
)


@dataclass(frozen=True)
class Answer:
    """The first rows of a statement; `more` counts those left out.

    `more_known` is False if the time ran out while they were counted: then there are at least so
    many.
    """

    sql: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    more: int = 0
    more_known: bool = True


class GuardedDatabase:
    """An analysis, open for SELECT statements alone.

    Raises `NothingToReadError` or `DatabaseError` for a file that is no analysis.
    """

    def __init__(self, path: Path, seconds: float, *, memory: int = _MEMORY) -> None:
        self.con = store.open_database(path)
        self._seconds = seconds
        try:
            allowed = min(memory, store.installed_memory(self.con) // 2)
            self.con.execute(f"SET memory_limit = '{allowed >> 20}MiB'")
            for setting in _SETTINGS:
                self.con.execute(setting)
            macros = self.con.execute(
                "SELECT DISTINCT function_name FROM duckdb_functions() "
                "WHERE function_type = 'table_macro' AND NOT internal"
            ).fetchall()
        except duckdb.Error as error:
            self.con.close()
            raise DatabaseError(_line(error)) from None
        self._functions = _TABLE_FUNCTIONS | {row[0] for row in macros}

    def select(self, sql: str) -> Answer:
        """The rows of one SELECT statement.

        Raises `AccessError` for any other statement and for functions that reach outside, and
        `DatabaseError` with DuckDB's reason, or if the statement takes too long.
        """
        text = self._checked(sql)
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            self.con.interrupt()

        timer = threading.Timer(self._seconds, stop)
        timer.start()
        columns: tuple[str, ...] = ()
        rows: list[list[Any]] = []
        more, more_known = 0, True
        reader = None
        try:
            reader = self.con.sql(text).to_arrow_reader(_BATCH)
            columns = tuple(reader.schema.names)
            for batch in reader:
                if batch.nbytes > _BATCH_BYTES:
                    raise DatabaseError(_TOO_LARGE)
                kept = batch.slice(0, max(0, _MOST_ROWS - len(rows)))
                # By position: two columns may have the same name.
                lists = [column.to_pylist() for column in kept.columns]
                rows += [list(row) for row in zip(*lists, strict=True)]
                more += batch.num_rows - kept.num_rows
        except (duckdb.Error, OSError, ValueError, OverflowError) as error:
            if not stopped.is_set():
                raise DatabaseError(_line(error)) from None
            if not rows:
                raise DatabaseError(
                    f"the statement took longer than {self._seconds:g} s: restrict it by trace_id, "
                    "utid, or time"
                ) from None
            more_known = False
        finally:
            timer.cancel()
            if reader is not None:
                # Otherwise the connection takes no other statement.
                reader.close()
        return Answer(text, columns, rows, more, more_known)

    def close(self) -> None:
        """Closes the database."""
        self.con.close()

    def _checked(self, sql: str) -> str:
        text = sql.strip().rstrip(";").strip()
        if len(text) > MOST_CHARACTERS:
            raise AccessError(f"the SQL has {len(text):,} characters; at most {MOST_CHARACTERS:,}")
        try:
            asked = self.con.execute("SELECT json_serialize_sql($1::VARCHAR)", [text])
            tree = json.loads(asked.fetchall()[0][0])
        except duckdb.Error as error:
            raise DatabaseError(_line(error)) from None
        except (RecursionError, ValueError):
            raise DatabaseError("the SQL cannot be parsed: write a simpler statement") from None
        if tree.get("error"):
            message = str(tree.get("error_message") or "not a statement").splitlines()[0]
            if "Only SELECT" in message:
                raise AccessError("only SELECT statements are allowed, one at a time")
            raise DatabaseError(message)
        if len(tree.get("statements", ())) != 1:
            raise AccessError("only one SELECT statement at a time is allowed")
        for node in _nodes(tree):
            self._check_node(node)
        return text

    def _check_node(self, node: dict[str, Any]) -> None:
        if node.get("type") == "TABLE_FUNCTION":
            name = str((node.get("function") or {}).get("function_name"))
            if name.lower() not in self._functions:
                raise AccessError(
                    f"the table function {name} is not allowed: query tables and views"
                )
        elif node.get("class") == "FUNCTION":
            name = str(node.get("function_name"))
            if _REFUSED_FUNCTION.match(name):
                raise AccessError(f"the function {name} is not allowed: query tables and views")
        elif node.get("type") == "BASE_TABLE":
            name = str(node.get("table_name"))
            if re.search(r"[./\\:*]", name):
                raise AccessError(f"'{name}' is not a table: files cannot be read")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a syntax tree, without recursion: a statement may nest deeply."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
