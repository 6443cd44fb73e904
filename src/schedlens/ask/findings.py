"""What an analyzer asks with, and what it concludes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, cast

import duckdb
import pyarrow as pa

from schedlens.ask.shared_answers import SharedAnswers
from schedlens.ask.timings import Timings

Severity = Literal["critical", "warning", "info"]
Conclusion = Literal["found", "clean", "not_applicable", "not_recorded", "left_out"]
Bound = Literal["exact", "at_least", "range"]
# What a cost is made of, and so which lost records change it: running and idle time, ready time,
# frames, or measurements that no trace record contributes to.
Metric = Literal["running", "ready", "frames", "measured"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")


class Rank(IntEnum):
    """What a finding is to the reader; of one severity, lower ranks are shown first."""

    ANSWER = 0
    """The answer to the experiment that was run; shown before every severity."""
    SYMPTOM = 1
    """What a user notices, such as frames that stutter."""
    CAUSE = 2
    SUM = 3
    """Time that other findings explain, such as all waiting of a thread."""


@dataclass(frozen=True)
class Finding:
    """A problem or a result; times in ns from ns 0 of its recording, shares in percent.

    `kind` identifies the kind of finding within its analyzer. `title` names the problem and its
    size in at most 12 words, `detail` is one sentence with thread, CPU and numbers, `advice` says
    what to do. `evidence_sql` returns the rows that the finding is computed from. `judge_all`
    fills in `analyzer`, the name of the file that yields the finding.

    The true cost by `bound`: `cost_ns` (exact), at or above it (at_least), between
    `cost_low_ns` and `cost_high_ns` or, without these, at or below it (range); None: not known.
    `cost_pct` is a share `cost_of` something, by default of the window.

    `fix` and the lengths of frames are what a replay of the recording predicts (`ask.gains`): the
    mean frame as recorded, and with the fix, with its interval. Severity and order follow the gain
    then; otherwise they follow the cost, and `no_gain_reason` says why. `gain_pct`, with its
    interval, is by how much the fix improves the frames, throughput or responses (`gain_of`).
    """

    kind: str
    severity: Severity
    title: str
    detail: str
    advice: str
    evidence_sql: str
    analyzer: str = ""
    rank: Rank = Rank.CAUSE
    trace_id: int | None = None
    cost_ns: int | None = None
    cost_pct: float | None = None
    cost_of: str = "of the window"
    utid: int | None = None
    cpu: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    bound: Bound | None = "exact"
    counter_evidence_sql: str | None = None
    cost_low_ns: int | None = None
    cost_high_ns: int | None = None
    fix: str | None = None
    frame_ns: int | None = None
    fixed_frame_ns: int | None = None
    fixed_low_ns: int | None = None
    fixed_high_ns: int | None = None
    no_gain_reason: str | None = None
    gain_of: str | None = None
    gain_pct: float | None = None
    gain_low_pct: float | None = None
    gain_high_pct: float | None = None
    # Threads that bear the cost; empty: the machine.
    about: tuple[int, ...] = ()

    @property
    def gain_ns(self) -> int | None:
        """By how much the fix shortens the mean frame; None if that is not known."""
        if self.frame_ns is None or self.fixed_frame_ns is None:
            return None
        return self.frame_ns - self.fixed_frame_ns


@dataclass(frozen=True)
class Outcome:
    """What an analyzer concluded about all recordings, or about one that it left out.

    `reason` says what was checked, or why nothing was; `missing` names the events that are not
    recorded, and `record_with` the commands that record them.
    """

    conclusion: Conclusion
    reason: str
    missing: tuple[str, ...] = ()
    record_with: str | None = None
    analyzer: str = ""
    trace_id: int | None = None


def clean(reason: str) -> Outcome:
    """The recordings contain what the analyzer looks at, and no problem."""
    return Outcome("clean", reason)


def not_applicable(reason: str) -> Outcome:
    """The question does not arise on this machine, or for this session."""
    return Outcome("not_applicable", reason)


def ordered(found: Iterable[Finding]) -> list[Finding]:
    """The findings in the order in which the terminal, the report, JSON and the store list them.

    Answers to experiments come first, then the severities. Of one severity, symptoms come first,
    then what concerns the recording with the worst symptom, then what gains most if it is fixed.
    Where the gain is not known, causes come before the sums that they explain, and the higher cost
    first.
    """
    listed = list(found)

    def by_severity(finding: Finding) -> tuple[int, int]:
        return SEVERITIES.index(finding.severity), -(finding.cost_ns or 0)

    symptoms = [finding for finding in listed if finding.rank == Rank.SYMPTOM]
    worst = min(symptoms, key=by_severity).trace_id if symptoms else None
    return sorted(
        listed,
        key=lambda finding: (
            finding.rank != Rank.ANSWER,
            SEVERITIES.index(finding.severity),
            finding.rank != Rank.SYMPTOM,
            worst is not None and finding.trace_id != worst,
            -max(finding.gain_ns or 0, 0),
            -max(finding.gain_pct or 0, 0),
            finding.rank,
            -(finding.cost_ns or 0),
            finding.analyzer,
            finding.title,
            finding.detail,
        ),
    )


@dataclass(frozen=True)
class Scope:
    """A database with all queries, and the part that the user asked about.

    The requested window is in the table `analysis_window`, so that every query without arguments
    uses it.
    """

    con: duckdb.DuckDBPyConnection
    process: str | None = None
    timings: Timings = field(default_factory=Timings, kw_only=True)
    shared: SharedAnswers | None = field(default=None, kw_only=True, repr=False)
    kept_rows: dict[str, list[dict[str, Any]]] = field(
        default_factory=dict, kw_only=True, repr=False
    )
    """Rows that many sections of the report need, by query."""

    @property
    def answers(self) -> SharedAnswers:
        """The answers that this analysis has stored."""
        if self.shared is None:
            object.__setattr__(self, "shared", SharedAnswers(self.con))
        return cast(SharedAnswers, self.shared)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, each as column name to value."""
        return self.named_rows(sql)[1]

    def named_rows(self, sql: str) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
        """The names of the columns of a query, and its rows."""
        columns = self.answers.without_rows(sql)
        if columns is not None:
            return columns, []
        statement = self._shared(sql)
        with self.timings.query(sql):
            cursor = self.con.execute(statement)
            names = tuple(column[0] for column in cursor.description or [])
            return names, [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def kept(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query whose answer does not change during the analysis, asked once."""
        if sql not in self.kept_rows:
            self.kept_rows[sql] = self.rows(sql)
        return self.kept_rows[sql]

    def table(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        statement = self._shared(sql)
        with self.timings.query(sql):
            return self.con.sql(statement).to_arrow_table()

    def execute(self, sql: str) -> None:
        """Runs a statement without rows, such as the creation of a temporary table."""
        statement = self._shared(sql)
        with self.timings.query(sql):
            self.con.execute(statement)

    def call(self, query: str, **arguments: object) -> str:
        """`FROM query(p_a := 1)`: the SQL that asks a question with arguments; None is left out.

        Within one analysis, the statements that contain it share one answer.
        """
        return self.answers.question(query, arguments)

    def _shared(self, sql: str) -> str:
        statement, before = self.answers.replaced(sql)
        for number, made in enumerate(before):
            try:
                with self.timings.query(made.shown):
                    self.con.execute(made.sql)
            except duckdb.Error:
                self.answers.forget(each.table for each in before[number:])
                raise
        return statement

    def kinds(self) -> list[dict[str, Any]]:
        """The rows of `recorded_kind`: which kinds of events each recording contains."""
        return self.kept(f"SELECT * FROM ({self.call('recorded_kind')}) ORDER BY kind")

    def lacks(self, trace_id: int, needs: Iterable[str]) -> list[str]:
        """Names of those of the kinds `needs` that this recording does not contain."""
        wanted = set(needs)
        return [
            row["name"]
            for row in self.kinds()
            if row["trace_id"] == trace_id and row["kind"] in wanted and not row["recorded"]
        ]
