"""Loads a recording and runs every query and analyzer on it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import duckdb
from prepared_database import FOR_FEW_ROWS, prepare

from damage import marks
from damage.identity import Names
from schedlens.ask import catalog, judging
from schedlens.ask.catalog import Query
from schedlens.ask.findings import Finding, Scope
from schedlens.load import recording_rows
from schedlens.load.recording import Recording

Row = dict[str, Any]

# The truth of a list of the worst is the full list.
_ALL_ROWS = {"thread_timeline": "thread_timeline(p_threads := 1000000)"}
_UNLIMITED = {"worst_waits": (("max(ready_ns, 20)[-1]", "0"), ("place <= 20", "place > 0"))}
# They judge experiments, and no source has any.
_EXPERIMENTS = {
    "handoff_time", "pair_interference", "scaling_clock", "scaling_curve", "shard_latency",
    "smt_boost", "smt_comparison", "recorder_cost", "reported_vs_real",
}  # fmt: skip
# The reference for the costs of findings.
_OF_FINDINGS = ("thread_summary", "core_choice")
_COMPLETE = """
WITH
  lost AS (
    SELECT first_ns AS start_ns, first_ns AS end_ns FROM trace
    UNION ALL SELECT duration_ns, duration_ns FROM trace
    UNION ALL
    SELECT coalesce(start_ns, first_ns), coalesce(end_ns, duration_ns) FROM loss, trace
  ),
  so_far AS (
    SELECT
      start_ns,
      max(end_ns) OVER (
        ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS from_ns,
    FROM lost
  )
SELECT so_far.from_ns, so_far.start_ns
FROM so_far
LEFT JOIN context_switch AS c ON c.ts >= so_far.from_ns AND c.ts < so_far.start_ns
WHERE so_far.from_ns IS NOT NULL
GROUP BY so_far.from_ns, so_far.start_ns
ORDER BY count(c.ts) DESC, so_far.start_ns - so_far.from_ns DESC
LIMIT 1
"""
_STORED = "SELECT table_name FROM duckdb_tables() WHERE temporary AND table_name LIKE 'answer%'"
_OF_EXPERIMENTS = re.compile(r"\b(run|run_worker|run_sample|cell\w*|energy|request_latency)\b")


@dataclass
class Answers:
    """Answers about one recording in one window; times in ns from its ns 0."""

    names: Names
    start_clock: int
    clock_hz: int
    first_ns: int
    duration_ns: int
    losses: int
    complete: tuple[int, int]
    """The time without a missing record that has the most switches."""
    window: tuple[int, int]
    rows: dict[str, list[Row]] = field(default_factory=dict)
    states: dict[str, list[Row]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


class Bench:
    """A database with all queries, cleared before each recording."""

    def __init__(self) -> None:
        warnings.filterwarnings("ignore", message="Arrow output on a DB-API")
        self.con = _prepared()
        rows = self.con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT temporary"
        ).fetchall()
        self._tables = [row[0] for row in rows]
        self.queries = [query for query in catalog.load_all() if _is_asked(query)]
        self._judges = set(judging.analyzers()) - _EXPERIMENTS

    def renew(self) -> None:
        """Begins with another database: planning in one becomes slower with each statement."""
        self.con.close()
        self.con = _prepared()

    def close(self) -> None:
        """Closes the database."""
        self.con.close()

    def load(self, recording: Recording) -> Answers | str:
        """Loads the recording; returns the reason if that fails."""
        for table in self._tables:
            self.con.execute(f"DELETE FROM {table}")
        failures = recording_rows.load_rows(self.con, [recording], (None, None), lambda *_: None)
        if failures:
            return failures[0].why
        found = self._rows("SELECT *, (SELECT count(*) FROM loss) AS losses FROM trace")[0]
        return Answers(
            Names(self.con), found["start_clock"], found["clock_hz"], found["first_ns"],
            found["duration_ns"], found["losses"], self._complete(),
            (found["first_ns"], found["duration_ns"]),
        )  # fmt: skip

    def _complete(self) -> tuple[int, int]:
        found = self.con.execute(_COMPLETE).fetchone()
        assert found is not None
        return found[0], found[1]

    def ask(
        self,
        answers: Answers,
        window: tuple[int, int],
        *,
        unlimited: bool = False,
        without: Iterable[str] = (),
    ) -> None:
        """Stores the answers of queries and analyzers about the loaded recording in a window.

        `unlimited`: without the limits of queries that return only the worst. `without`: queries
        to skip, which then have no rows.
        """
        answers.window = window
        self.con.execute("UPDATE analysis_window SET start_ns = ?, end_ns = ?, kind = 'asked'",
                         list(window))  # fmt: skip
        # Other answers may share the rows so far.
        answers.rows = {}
        scope = Scope(self.con)
        answers.findings = judging.judge_all(scope, self._judges).findings
        for query in self.queries:
            left_out = query.full_name in without
            # What the analyzers asked is already answered.
            rows = [] if left_out else scope.rows(_text(query, unlimited, scope))
            answers.rows[query.full_name] = rows
        self.read_states(answers)
        for (name,) in self.con.execute(_STORED).fetchall():
            self.con.execute(f"DROP TABLE {name}")

    def read_states(self, answers: Answers) -> None:
        """Stores the states of threads and CPUs of the loaded recording."""
        answers.states = {
            "thread_state": self._rows(
                "SELECT utid, ts, dur, state, cpu FROM thread_state WHERE dur > 0 ORDER BY utid, ts"
            ),
            "cpu_state": self._rows(
                "SELECT cpu, ts, dur, state, utid FROM cpu_state WHERE dur > 0 ORDER BY cpu, ts"
            ),
        }

    def empty(self, answers: Answers) -> set[str]:
        """Queries about experiments that have no rows, whatever is recorded."""
        return {
            query.full_name
            for query in self.queries
            if not answers.rows[query.full_name] and _OF_EXPERIMENTS.search(query.sql)
        }

    def _rows(self, sql: str) -> list[Row]:
        cursor = self.con.execute(sql)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _prepared() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config=FOR_FEW_ROWS)
    # For so few rows, the order of joins costs more to choose than it saves.
    con.execute("SET enable_progress_bar = false; SET disabled_optimizers = 'join_order'")
    prepare(con)
    return con


def _is_asked(query: Query) -> bool:
    """Whether it runs without parameters and claims anything."""
    claims = any(mark.claims for mark in marks.of(query).values())
    return (claims and query.full_name != "median_rank") or query.full_name in _OF_FINDINGS


def _text(query: Query, unlimited: bool, scope: Scope) -> str:
    if unlimited and query.name in _ALL_ROWS:
        return f"FROM {_ALL_ROWS[query.name]}"
    if not unlimited or query.name not in _UNLIMITED:
        return scope.call(query.full_name)
    sql = query.sql
    for limited, free in _UNLIMITED[query.name]:
        if limited not in sql:
            raise ValueError(f"{query.name} has no {limited} any more")
        sql = sql.replace(limited, free)
    for parameter in query.parameters:
        sql = sql.replace(parameter.name, f"({parameter.default})")
    return sql
