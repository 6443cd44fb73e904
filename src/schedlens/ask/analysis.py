"""An analyzed session, as Python sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from schedlens.ask import catalog, interruptible, summaries
from schedlens.errors import DatabaseError
from schedlens.load import recording_rows, schema, store
from schedlens.load.recording import Recording


def load(
    con: duckdb.DuckDBPyConnection,
    recordings: list[Recording],
    window: tuple[int | None, int | None],
    progress: recording_rows.Progress,
    trace_ids: Sequence[int] | None = None,
    phase: recording_rows.Phase = nullcontext,
    before_summaries: Callable[[], object] = lambda: None,
) -> list[recording_rows.Failure]:
    """Does what `recording_rows.load_rows` does, then adds all views and the summaries.

    `before_summaries` is called when everything but the summaries can be read.
    """
    failures = recording_rows.load_rows(con, recordings, window, progress, trace_ids, phase)
    if len(failures) < len(recordings):
        if not catalog.is_installed(con):
            catalog.install(con)
        before_summaries()
        with phase("load: summaries"):
            summaries.build(con)
    return failures


def statement(query: str, arguments: Mapping[str, object]) -> str:
    """The SQL of a query: SQL is returned as it is, a name becomes `FROM name(p_a := 1)`.

    Raises `UnknownQueryError`, or `UnknownNameError` for an argument.
    """
    if not re.fullmatch(r"\w+(\.\w+)?", query):
        if arguments:
            raise DatabaseError("only a named query takes arguments, and this is SQL")
        return query
    if not arguments:
        return f"FROM {query}"
    return catalog.call(catalog.find(query), {k: schema.value(v) for k, v in arguments.items()})


class Database:
    """The database of an analyzed session, read only; also a context manager.

    `con` is an open database to use instead, such as that of a lake.
    """

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection | None = None) -> None:
        self.con = store.open_database(path) if con is None else con

    def sql(self, query: str, **arguments: object) -> pa.Table:
        """The rows of a query as an Arrow table.

        `query` is SQL, or the name of a question, table or view; a question takes its parameters as
        arguments, without `p_`. Raises `UnknownQueryError` or `UnknownNameError` for names, and
        `DatabaseError` with DuckDB's reason.
        """
        try:
            answer = interruptible.table(self.con, statement(query, arguments))
            # A statement such as SET answers nothing.
            return pa.table({}) if answer is None else answer
        except duckdb.Error as error:
            raise DatabaseError(str(error).splitlines()[0]) from None

    def queries(self) -> dict[str, str]:
        """The named queries, each with what it answers."""
        return {query.full_name: query.text for query in catalog.load_all()}

    def close(self) -> None:
        """Closes the database."""
        self.con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
