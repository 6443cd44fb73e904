"""Answers that several analyzers and sections of the report need, each computed once.

A question is asked as `FROM query(arguments)`, alone or inside a larger statement. The first
statement that contains it stores the answer in a temporary table, which all statements then read.
So do the questions that ask it themselves, and the statements that read its view. If its file says
that its answer is stored, these store it too: planning such a question again takes longer than
reading its few rows.
A question that has no rows because a table is empty is not planned at all.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import duckdb

from schedlens.ask import blank_database, catalog
from schedlens.load.schema import literal

_NUMBERS = itertools.count(1)
_RECORDING = "p_trace_id"


@dataclass(frozen=True)
class Making:
    """A statement that stores an answer, and how it is shown: with the question as it is asked."""

    table: str
    sql: str
    shown: str


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
    _given: dict[str, dict[str, str]] = field(default_factory=dict)
    """The arguments of each question, as SQL by parameter."""
    _tables: dict[tuple[str, frozenset[int]], str] = field(default_factory=dict)
    _hidden: frozenset[int] = frozenset()
    _only: int | None = None
    _empty: frozenset[str] | None = None

    def question(self, query: str, arguments: Mapping[str, object]) -> str:
        """`FROM query(p_a := 1)`: the SQL that asks a question; arguments of None are left out."""
        given = {f"p_{name}": _sql(value) for name, value in arguments.items() if value is not None}
        text = _call(query, given)
        if text not in self._asked:
            question = self._known(query, given)
            texts = {text}
            # Evidence names its recording.
            if _RECORDING not in self._given[question]:
                texts.add(_call(query, {_RECORDING: str(self._only_recording()), **given}))
            for each in texts:
                self._asked[each], self._queries[each] = question, query
        return text

    def _known(self, query: str, given: Mapping[str, str]) -> str:
        """The text that stands for all texts of a question."""
        described = catalog.described(query)
        defaults = {} if described is None else {p.name: p.default for p in described.parameters}
        # In a database of one recording, its answer is the answer about all.
        defaults[_RECORDING] = str(self._only_recording())
        kept = {name: text for name, text in sorted(given.items()) if text != defaults.get(name)}
        question = _call(query, kept)
        self._queries[question], self._given[question] = query, kept
        return question

    def without_rows(self, sql: str) -> tuple[str, ...] | None:
        """The columns of a question that has no rows because a table that it needs is empty.

        None if the statement is not such a question, or if it may have rows.
        """
        query = catalog.described(self._queries.get(sql, ""))
        if query is None or not self._has_no_rows(query):
            return None
        return tuple(name for name, _ in query.columns)

    def _has_no_rows(self, query: catalog.Query) -> bool:
        if query.compares and self._only_recording() != -1:
            return True
        return bool(query.needs) and bool(self._empty_tables().intersection(query.needs))

    def _empty_tables(self) -> frozenset[str]:
        if self._empty is None:
            # A table that was emptied later is not known to be so, which only costs time.
            rows = self.con.execute(
                "SELECT table_name FROM duckdb_tables() WHERE estimated_size = 0 "
                "AND database_name = current_database() AND schema_name = 'main'"
            ).fetchall()
            self._empty = frozenset(row[0] for row in rows)
        return self._empty

    def replaced(self, sql: str) -> tuple[str, list[Making]]:
        """The statement with stored answers in place of questions; and what must run before it."""
        before: list[Making] = []
        for text, question in self._asked.items():
            if text not in sql:
                continue
            pattern = re.compile(rf"(?<!\w){re.escape(text)}(?![\w(.])")
            if not pattern.search(sql):
                continue
            table = self._stored(question, before)
            sql = pattern.sub(f"FROM {table}", sql)
        return catalog.read_by(sql, lambda name: self._answer(name, {}, before)), before

    def _stored(self, question: str, before: list[Making]) -> str:
        """The table with the answer to a question; `before` receives what makes it."""
        key = (question, self._hidden)
        if key not in self._tables:
            query = catalog.described(self._queries[question])
            table = f"answer_{next(_NUMBERS)}"
            made = f"CREATE TEMP TABLE {table}"
            if query is None:
                sql = f"{made} AS {question}"
            elif self._has_no_rows(query):
                sql = f"{made} ({_columns(query)})"
            else:
                given = self._given[question]
                asked = catalog.body(
                    query, given, lambda name, own: self._answer(name, own, before)
                )
                sql = f"{made} AS {asked}"
            before.append(Making(table, sql, f"{made} AS {question}"))
            self._tables[key] = table
        return self._tables[key]

    def _answer(self, name: str, given: Mapping[str, str], before: list[Making]) -> str | None:
        """The table with the answer to a question inside another; None if it is not stored."""
        query = catalog.described(name)
        if query is None:
            return None
        question = self._known(name, given)
        asked_before = (question, self._hidden) in self._tables
        if not (asked_before or query.is_stored or self._has_no_rows(query)):
            return None
        return self._stored(question, before)

    @contextlib.contextmanager
    def without(self, traces: frozenset[int]) -> Iterator[None]:
        """Inside, these recordings have no window, so that no question answers for them."""
        outside, self._hidden = self._hidden, traces
        try:
            yield
        finally:
            self._hidden = outside

    def forget(self, tables: Iterable[str]) -> None:
        """Statements that `replaced` returned have failed, or did not run: nothing is stored."""
        unmade = set(tables)
        self._tables = {key: name for key, name in self._tables.items() if name not in unmade}

    def _only_recording(self) -> int | None:
        if self._only is None:
            found = self.con.execute("SELECT trace_id FROM trace LIMIT 2").fetchall()
            self._only = found[0][0] if len(found) == 1 else -1
        return self._only


def _columns(query: catalog.Query) -> str:
    """The columns of a question with their types, as for CREATE TABLE."""
    types = blank_database.column_types()[query.full_name]
    return ", ".join(f'"{name}" {types[name]}' for name, _ in query.columns)


def _sql(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return literal(value) if isinstance(value, str) else str(value)


def _call(query: str, given: Mapping[str, str]) -> str:
    words = ", ".join(f"{name} := {text}" for name, text in given.items())
    return f"FROM {query}({words})" if words else f"FROM {query}"
