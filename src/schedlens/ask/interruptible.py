"""A query that Ctrl-C stops."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, TimeoutError
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

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
        pending = pool.submit(ask)
        try:
            while True:
                try:
                    return pending.result(_LOOK_S)
                except TimeoutError:
                    if pending.done():
                        raise
        except BaseException:
            con.interrupt()
            raise
