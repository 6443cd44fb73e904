"""Queries that run in another thread, so that Ctrl-C stops them at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

T = TypeVar("T")

# On Windows, a wait without a limit does not see an interrupt.
_LOOK_S = 0.2


def table(con: duckdb.DuckDBPyConnection, statement: str) -> pa.Table | None:
    """The rows of a statement as an Arrow table; None for one that answers nothing.

    A relation looks for no interrupt before it has all rows. So another thread waits for them, and
    this one for an interrupt, which stops the query. Raises what DuckDB raises.
    """

    def ask() -> pa.Table | None:
        answer = con.sql(statement)
        return None if answer is None else answer.to_arrow_table()

    with ThreadPoolExecutor(1) as pool:
        return result(pool.submit(ask), con.interrupt)


def result(pending: Future[T], stop: Callable[[], None]) -> T:
    """What another thread returns or raises; after an interrupt of this one, `stop` stops it."""
    with stopped(pending, stop):
        while True:
            try:
                return pending.result(_LOOK_S)
            except TimeoutError:
                if pending.done():
                    raise


@contextmanager
def stopped(pending: Future[Any], stop: Callable[[], None]) -> Iterator[None]:
    """Stops another thread if the block raises; `stop` interrupts its query."""
    try:
        yield
    except BaseException:
        # Between two queries, there is none to interrupt.
        while not pending.done():
            stop()
            wait([pending], _LOOK_S)
        raise
