"""What an analyzer asks with, and what it yields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pyarrow as pa

from schedlens.load.schema import literal

Severity = Literal["critical", "warning", "info", "checked", "not_recorded"]
Bound = Literal["exact", "at_least", "range"]
# What a cost is made of, and so which lost records change it: running and idle time, ready time,
# frames, or measurements that no trace record contributes to.
Metric = Literal["running", "ready", "frames", "measured"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info", "checked", "not_recorded")


@dataclass(frozen=True)
class Finding:
    """One judgement; times in ns from ns 0 of its recording, shares of the window in percent.

    `bound` says where the true cost lies: at `cost_ns` (exact), at or above it (at_least), between
    `cost_low_ns` and `cost_high_ns` or, without these, at or below it (range); None: not known.
    """

    analyzer: str
    severity: Severity
    title: str
    evidence_sql: str
    advice: str = ""
    trace_id: int | None = None
    cost_ns: int | None = None
    cost_pct: float | None = None
    utid: int | None = None
    cpu: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    bound: Bound | None = "exact"
    counter_evidence_sql: str | None = None
    cost_low_ns: int | None = None
    cost_high_ns: int | None = None
    # Threads that bear the cost; empty: the machine.
    about: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scope:
    """A database with all questions in it, and what the user wants to know about.

    The window asked for stands in the table `analysis_window`, so that every question without
    arguments answers for it.
    """

    con: duckdb.DuckDBPyConnection
    process: str | None = None

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, each as column name to value."""
        cursor = self.con.execute(sql)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def table(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        return self.con.sql(sql).to_arrow_table()

    def call(self, query: str, **arguments: object) -> str:
        """`FROM query(p_a := 1)`: the SQL that asks a question with arguments; None is left out."""
        given = ", ".join(
            f"p_{name} := {literal(value) if isinstance(value, str) else value}"
            for name, value in arguments.items()
            if value is not None
        )
        return f"FROM {query}({given})" if given else f"FROM {query}"

    def lacks(self, trace_id: int, needs: Iterable[str]) -> list[str]:
        """Names of those of the kinds `needs` that this recording does not contain."""
        listed = ", ".join(literal(kind) for kind in needs) or "NULL"
        return [
            row["name"]
            for row in self.rows(
                f"FROM recorded_kind(p_trace_id := {trace_id}) "
                f"WHERE kind IN ({listed}) AND NOT recorded ORDER BY kind"
            )
        ]
