"""Answers that several analyzers and sections of the report need, each computed once.

A question is asked as `FROM query(arguments)`, alone or inside a larger statement. The first
statement that contains it stores the answer in a temporary table, which all statements then read.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import duckdb

from schedlens.ask import catalog
from schedlens.load.schema import literal

_NUMBERS = itertools.count(1)


@dataclass
class SharedAnswers:
    """The answers of one analysis.

    The tables that the questions read must not change, except for the windows of recordings that
    are hidden meanwhile (`without`).
    """

    con: duckdb.DuckDBPyConnection
    _asked: dict[str, str] = field(default_factory=dict)
    """The text of each question, and the same for all texts of one question."""
    _queries: dict[str, str] = field(default_factory=dict)
    """The name of the query that each text asks."""
    _tables: dict[tuple[str, frozenset[int]], str] = field(default_factory=dict)
    _hidden: frozenset[int] = frozenset()
    _only: int | None = None
    _empty: frozenset[str] | None = None

    def question(self, query: str, arguments: Mapping[str, object]) -> str:
        """`FROM query(p_a := 1)`: the SQL that asks a question; arguments of None are left out."""
        given = {name: value for name, value in arguments.items() if value is not None}
        text = _call(query, given)
        if text not in self._asked:
            # In a database of one recording, its answer is the answer about all.
            only = self._only_recording()
            if given.get("trace_id") == only:
                given.pop("trace_id", None)
            question = _call(query, given)
            texts = {text}
            # Evidence names its recording.
            if "trace_id" not in given:
                texts.add(_call(query, {"trace_id": only, **given}))
            for each in texts:
                self._asked[each], self._queries[each] = question, query
        return text

    def without_rows(self, sql: str) -> tuple[str, ...] | None:
        """The columns of a question that has no rows because a table that it needs is empty.

        None if the statement is not such a question, or if it may have rows.
        """
        query = catalog.described(self._queries.get(sql, ""))
        if query is None or not query.needs or not self._empty_tables().intersection(query.needs):
            return None
        return tuple(name for name, _ in query.columns)

    def _empty_tables(self) -> frozenset[str]:
        if self._empty is None:
            # A table that was emptied later is not known to be so, which only costs time.
            rows = self.con.execute(
                "SELECT table_name FROM duckdb_tables() WHERE estimated_size = 0 "
                "AND database_name = current_database() AND schema_name = 'main'"
            ).fetchall()
            self._empty = frozenset(row[0] for row in rows)
        return self._empty

    def replaced(self, sql: str) -> tuple[str, list[str]]:
        """The statement with stored answers in place of questions; and what must run before it."""
        before = []
        for text, question in self._asked.items():
            if text not in sql:
                continue
            pattern = re.compile(rf"(?<!\w){re.escape(text)}(?![\w(.])")
            if not pattern.search(sql):
                continue
            key = (question, self._hidden)
            if key not in self._tables:
                table = f"answer_{next(_NUMBERS)}"
                before.append(f"CREATE TEMP TABLE {table} AS {question}")
                self._tables[key] = table
            sql = pattern.sub(f"FROM {self._tables[key]}", sql)
        return sql, before

    @contextlib.contextmanager
    def without(self, traces: frozenset[int]) -> Iterator[None]:
        """Inside, these recordings have no window, so that no question answers for them."""
        outside, self._hidden = self._hidden, traces
        try:
            yield
        finally:
            self._hidden = outside

    def forget(self, statement: str) -> None:
        """A statement that `replaced` returned has failed: its answer is not stored."""
        self._tables = {
            key: table
            for key, table in self._tables.items()
            if f" TEMP TABLE {table} AS " not in statement
        }

    def _only_recording(self) -> int | None:
        if self._only is None:
            found = self.con.execute("SELECT trace_id FROM trace LIMIT 2").fetchall()
            self._only = found[0][0] if len(found) == 1 else -1
        return self._only


def _call(query: str, given: Mapping[str, object]) -> str:
    words = ", ".join(
        f"p_{name} := {literal(value) if isinstance(value, str) else value}"
        for name, value in given.items()
    )
    return f"FROM {query}({words})" if words else f"FROM {query}"
