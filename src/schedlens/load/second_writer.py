"""A second connection that inserts rows while the first one goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import duckdb
import pyarrow as pa

Insert = Callable[[duckdb.DuckDBPyConnection, str, list[pa.RecordBatch]], None]


class SecondWriter:
    """Inserts batches into tables in a thread and a transaction of its own.

    DuckDB compresses the rows of one statement in one thread, which takes longer than to decode
    them: two statements use two CPUs. The thread starts with the first rows. Rows that were not
    committed when the `with` block ends are forgotten. No other connection may insert into the
    same tables meanwhile.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, insert: Insert) -> None:
        self._con = con
        self._insert = insert
        self._own: duckdb.DuckDBPyConnection | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def __enter__(self) -> SecondWriter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        if self._own is not None:
            # Closing it also ends its transaction.
            self._own.close()

    @property
    def started(self) -> bool:
        """Whether it has received rows."""
        return self._own is not None

    def insert(self, table: str, batches: list[pa.RecordBatch]) -> None:
        """Takes the rows, and returns once the ones before are inserted.

        Raises the `duckdb.Error` of a statement before.
        """
        if self._pool is None or self._own is None:
            [(database,)] = self._con.execute("SELECT current_database()").fetchall()
            self._own = self._con.cursor()
            self._own.execute('USE "' + str(database).replace('"', '""') + '"')
            self._own.begin()
            self._pool = ThreadPoolExecutor(1)
        self._wait()
        self._pending = self._pool.submit(self._insert, self._own, table, batches)

    def commit(self) -> None:
        """Makes the rows visible to all connections. Raises the `duckdb.Error` of a statement."""
        self._wait()
        if self._own is not None:
            self._own.commit()

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
