"""Run one SELECT statement (DuckDB) on a session and return its first rows.

Tables and views: SELECT view_name, comment FROM duckdb_views() WHERE NOT internal. Columns with
their meaning: SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'finding'. A
view is also a macro with parameters: FROM thread_summary(p_trace_id := 1). Times are ns.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part, of_sql


class Arguments(BaseModel):
    """The statement."""

    model_config = ConfigDict(extra="forbid")
    session: str = Field(description="A session of list_sessions.")
    sql: str = Field(description="One SELECT statement; it cannot write, or read files.")


def answer(access: Access, given: Arguments) -> list[Part]:
    """Its rows."""
    narrow = "select fewer columns, or use WHERE, GROUP BY, ORDER BY, LIMIT and OFFSET"
    return [of_sql("rows", access.select(given.session, given.sql), narrow)]
