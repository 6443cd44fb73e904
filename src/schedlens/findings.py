"""What an analyzer asks with, and what it yields."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import duckdb
import pyarrow as pa

from schedlens import bounds
from schedlens.questions import literal
from schedlens.wording import bounded_title

Severity = Literal["critical", "warning", "info", "checked"]
Bound = Literal["exact", "at_least", "range"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info", "checked")

# Costs that the system or a program counted: lost events do not change them.
_COUNTED = frozenset({"steal", "recorder_cost", "trace_quality"})
# Costs taken from these queries have no bounds if events were lost, as the queries state.
_UNBOUNDED = re.compile(
    r"\b(frame_ledger|frame_parking|background_running|sharing_by_affinity|path_switch)\b"
)


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


Judge = Callable[[Scope], Iterable[Finding]]


def analyzers() -> dict[str, Judge]:
    """The analyzers by name: every file in analyzers/ has a function `judge(scope)`."""
    package = importlib.import_module("schedlens.analyzers")
    return {
        module.name: cast(Judge, importlib.import_module(f"{package.__name__}.{module.name}").judge)
        for module in pkgutil.iter_modules(package.__path__)
    }


def judge_all(scope: Scope, only: Iterable[str] = ()) -> Iterator[Finding]:
    """Runs all analyzers, or those named, and yields what they find."""
    wanted = set(only)
    lossy = bounds.lossy_traces(scope.con)
    for name, judge in analyzers().items():
        if not wanted or name in wanted:
            yield from (bounded(found, lossy) for found in judge(scope))


def bounded(found: Finding, lossy: Collection[int]) -> Finding:
    """The finding with the bound that lost events leave to its cost, also in its title."""
    if found.cost_ns is None or found.severity == "checked":
        return found
    bound = found.bound
    if found.trace_id in lossy and found.analyzer not in _COUNTED:
        if _UNBOUNDED.search(found.evidence_sql):
            bound = None
        elif bound == "exact":
            bound = "at_least"
    return replace(found, bound=bound, title=bounded_title(found.title, found.cost_ns, bound))


def store(con: duckdb.DuckDBPyConnection, found: list[Finding]) -> None:
    """Fills the table `finding`, most severe first, then by cost."""
    con.execute("DELETE FROM finding")
    ranked = sorted(found, key=lambda f: (SEVERITIES.index(f.severity), -(f.cost_ns or 0), f.title))
    rows = [
        (
            number, f.trace_id, f.analyzer, f.severity, f.title, f.cost_ns, f.cost_pct, f.utid,
            f.cpu, f.start_ns, f.end_ns, f.bound, f.advice, f.evidence_sql, f.counter_evidence_sql,
            f.cost_low_ns, f.cost_high_ns,
        )
        for number, f in enumerate(ranked, start=1)
    ]  # fmt: skip
    if rows:
        con.executemany(f"INSERT INTO finding VALUES ({', '.join('?' * 17)})", rows)
