"""Runs the analyzers, and stores what they find."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import duckdb

from schedlens.ask.findings import SEVERITIES, Finding, Metric, Scope
from schedlens.ask.loss import bounded
from schedlens.load.schema import literal
from schedlens.output.wording import elsewhere

Judge = Callable[[Scope], Iterable[Finding]]


@dataclass(frozen=True)
class Analyzer:
    """One file of analyzers/: `judge(scope)`, the kinds of events it needs, and its metric.

    `needs` names kinds of `recorded_kind`; a recording that lacks one of them is not judged.
    """

    name: str
    judge: Judge
    needs: tuple[str, ...]
    metric: Metric


def analyzers() -> dict[str, Analyzer]:
    """The analyzers by name."""
    package = importlib.import_module("schedlens.analyzers")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        found[module.name] = Analyzer(
            module.name, cast(Judge, loaded.judge), loaded.NEEDS, loaded.METRIC
        )
    return found


def judge_all(scope: Scope, only: Iterable[str] = ()) -> Iterator[Finding]:
    """Runs all analyzers, or those named, on the recordings that contain what each needs.

    Every finding leaves with the bound that the loss in its recording permits. An analyzer
    yields one finding of severity `not_recorded` for the recordings that it cannot judge.
    """
    wanted = set(only)
    kinds = scope.rows("FROM recorded_kind")
    traces = [row["trace_id"] for row in scope.rows("FROM trace ORDER BY trace_id")]
    commands: dict[int, set[int]] = {}
    for row in scope.rows("FROM command_thread"):
        commands.setdefault(row["trace_id"], set()).add(row["utid"])
    for name, analyzer in analyzers().items():
        if wanted and name not in wanted:
            continue
        missing = [row for row in kinds if row["kind"] in analyzer.needs and not row["recorded"]]
        blind = {row["trace_id"] for row in missing}
        if analyzer.needs and len(blind) == len(traces):
            yield _not_recorded(scope, analyzer, missing)
            continue
        with _without(scope, blind):
            found = [f for f in analyzer.judge(scope) if f.trace_id not in blind]
        for finding in found:
            yield bounded(scope, _of_command(finding, commands), analyzer.metric)
        # Steps that nobody meant to measure so are no news.
        if blind and analyzer.metric != "measured":
            yield _not_recorded(scope, analyzer, missing)


def _of_command(finding: Finding, commands: dict[int, set[int]]) -> Finding:
    """The finding; info if a command was recorded and the cost is borne by other programs alone."""
    own = commands.get(finding.trace_id or 0, set())
    foreign = own and finding.about and not own & set(finding.about)
    if foreign and finding.severity in ("critical", "warning"):
        return replace(finding, severity="info")
    return finding


@contextmanager
def _without(scope: Scope, traces: set[int]) -> Iterator[None]:
    """Hides recordings: without a window, no query answers for them."""
    listed = ", ".join(str(trace_id) for trace_id in sorted(traces)) or "NULL"
    hidden = scope.con.execute(
        f"SELECT * FROM analysis_window WHERE trace_id IN ({listed})"
    ).fetchall()
    if not hidden:
        yield
        return
    scope.con.execute(f"DELETE FROM analysis_window WHERE trace_id IN ({listed})")
    try:
        yield
    finally:
        scope.con.executemany("INSERT INTO analysis_window VALUES (?, ?, ?, ?)", hidden)


def _not_recorded(scope: Scope, analyzer: Analyzer, missing: list[dict[str, Any]]) -> Finding:
    """Which of the kinds that the analyzer needs no recording, or some, lack."""
    kinds = {row["kind"]: row for row in missing}
    lacking = {row["trace_id"] for row in missing}
    names = ", ".join(kinds[kind]["name"] for kind in analyzer.needs if kind in kinds)
    if not lacking:
        names = "no recording"
    labels = scope.rows(f"SELECT label FROM trace WHERE trace_id = {min(lacking, default=0)}")
    where = f" in {labels[0]['label']}{elsewhere(len(lacking) - 1)}" if labels else ""
    how = {row["record_with"] for row in missing if row["record_with"] is not None}
    listed = ", ".join(literal(kind) for kind in analyzer.needs)
    return Finding(
        analyzer=analyzer.name,
        severity="not_recorded",
        title=f"Not recorded{where}: {names}",
        advice=f"Record with: {'; '.join(sorted(how))}." if how else "",
        trace_id=min(lacking) if len(lacking) == 1 else None,
        evidence_sql=f"FROM recorded_kind WHERE kind IN ({listed}) AND NOT recorded",
    )


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
