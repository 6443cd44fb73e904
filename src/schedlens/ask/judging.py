"""Runs the analyzers, and stores what they find and conclude."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import duckdb

from schedlens.ask import added_up, gains, loss, waiting_code
from schedlens.ask.findings import Finding, Metric, Outcome, Scope, ordered
from schedlens.output.wording import unbroken

Judge = Callable[[Scope], Iterable[Finding | Outcome]]

LEFT_OUT = (
    "Its query needs more memory than --max-memory allows. Allow more, or choose a shorter window "
    "(--from, --to)."
)


# Rows that a statement inserts.
_ROWS_AT_ONCE = 200


@dataclass(frozen=True)
class Analyzer:
    """One file of analyzers/: `judge(scope)`, the events it needs, its metric, its finding kinds.

    `needs` names kinds of `recorded_kind`; a recording that lacks one of them is not judged.
    `kinds` are the kinds of its findings, each unique within the analyzer.
    """

    name: str
    judge: Judge
    needs: tuple[str, ...]
    metric: Metric
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """All findings, in the order in which they are shown, and what each analyzer concluded."""

    findings: list[Finding]
    outcomes: list[Outcome]


@cache
def analyzers() -> dict[str, Analyzer]:
    """The analyzers by name."""
    package = importlib.import_module("schedlens.analyzers")
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        found[module.name] = Analyzer(
            module.name, cast(Judge, loaded.judge), loaded.NEEDS, loaded.METRIC, loaded.KINDS
        )
    return found


def judge_all(
    scope: Scope,
    only: Iterable[str] = (),
    progress: Callable[[str, float], None] = lambda name, share: None,
) -> Judgement:
    """Runs all analyzers, or those named, on the recordings that contain what each needs.

    Every finding gets its analyzer's name and the bound that the loss in its recording permits.
    Each analyzer has one outcome about the session, and one for each recording that it left out
    because the recording lacks events. An analyzer whose query needs more memory than the database
    may use is left out; the others continue.
    """
    wanted = set(only)
    kinds = scope.kinds()
    traces = [row["trace_id"] for row in scope.rows("FROM trace ORDER BY trace_id")]
    commands: dict[int, set[int]] = {}
    for row in scope.rows("FROM command_thread"):
        commands.setdefault(row["trace_id"], set()).add(row["utid"])
    windows = {row["trace_id"]: row["dur_ns"] for row in scope.rows("FROM analysis_span")}
    missed = loss.missed(scope)
    findings: list[Finding] = []
    outcomes: list[Outcome] = []
    chosen = {name: each for name, each in analyzers().items() if not wanted or name in wanted}
    for number, (name, analyzer) in enumerate(chosen.items()):
        progress(name, number / len(chosen))
        missing = [row for row in kinds if row["kind"] in analyzer.needs and not row["recorded"]]
        blind = sorted({row["trace_id"] for row in missing})
        if not traces:
            outcomes.append(Outcome("not_recorded", "No recording was loaded.", analyzer=name))
            continue
        if analyzer.needs and len(blind) == len(traces):
            outcomes.append(_not_recorded(analyzer, missing))
            continue
        try:
            with scope.timings.of(name), _without(scope, set(blind)):
                concluded = list(analyzer.judge(scope))
        except duckdb.OutOfMemoryException:
            outcomes.append(Outcome("left_out", LEFT_OUT, analyzer=name))
            continue
        own = [
            _worded(
                _bounded(scope, _of_command(finding, commands), analyzer, windows, missed), name
            )
            for finding in concluded
            if isinstance(finding, Finding) and finding.trace_id not in blind
        ]
        findings += own
        said = _outcome(name, own, [o for o in concluded if isinstance(o, Outcome)])
        if said.conclusion == "clean" and analyzer.metric != "measured":
            unseen = [pct for trace_id, pct in missed.items() if trace_id not in blind]
            added = loss.unjudged(unseen, len(traces))
            said = replace(said, reason=unbroken(said.reason + added))
        outcomes.append(said)
        # Steps that nobody meant to measure so are no news.
        if analyzer.metric != "measured":
            outcomes += [
                replace(
                    _not_recorded(analyzer, [row for row in missing if row["trace_id"] == blank]),
                    trace_id=blank,
                )
                for blank in blind
            ]
    metrics = {name: analyzer.metric for name, analyzer in chosen.items()}
    stacks = {row["trace_id"] for row in kinds if row["kind"] == "stacks" and row["recorded"]}
    return Judgement(waiting_code.named(scope, ordered(findings), metrics, stacks), outcomes)


def _bounded(
    scope: Scope,
    finding: Finding,
    analyzer: Analyzer,
    windows: dict[int, int],
    missed: dict[int, float],
) -> Finding:
    """The finding with the bound of its cost, what is not bounded, and what it is added up over."""
    made = loss.bounded(scope, finding, analyzer.metric)
    if analyzer.metric != "measured":
        made = loss.limited(made, missed.get(finding.trace_id or 0))
    window_ns = windows.get(finding.trace_id or 0)
    return made if window_ns is None else added_up.worded(scope, made, window_ns)


def _worded(finding: Finding, analyzer: str) -> Finding:
    """The finding with its analyzer's name, its units kept with their numbers."""
    return replace(
        finding,
        analyzer=analyzer,
        title=unbroken(finding.title),
        detail=unbroken(finding.detail),
        advice=unbroken(finding.advice),
    )


def _outcome(name: str, found: list[Finding], said: list[Outcome]) -> Outcome:
    """The conclusion of one analyzer: its findings outweigh what it found in order."""
    reason = unbroken(" ".join(outcome.reason for outcome in said))
    if found or not said:
        return Outcome("found" if found else "clean", reason, analyzer=name)
    return replace(said[0], analyzer=name, reason=reason)


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
    if not traces:
        yield
        return
    listed = ", ".join(str(trace_id) for trace_id in sorted(traces))
    hidden = scope.con.execute(
        f"SELECT * FROM analysis_window WHERE trace_id IN ({listed})"
    ).fetchall()
    if not hidden:
        yield
        return
    scope.con.execute(f"DELETE FROM analysis_window WHERE trace_id IN ({listed})")
    try:
        with scope.answers.without(frozenset(traces)):
            yield
    finally:
        scope.con.executemany("INSERT INTO analysis_window VALUES (?, ?, ?, ?)", hidden)


def _not_recorded(analyzer: Analyzer, missing: list[dict[str, Any]]) -> Outcome:
    """Which of the events that the analyzer needs are missing, and how to record them."""
    kinds = {row["kind"]: row["name"] for row in missing}
    names = tuple(kinds[kind] for kind in analyzer.needs if kind in kinds)
    how = {row["record_with"] for row in missing if row["record_with"] is not None}
    return Outcome(
        "not_recorded",
        f"Not recorded: {', '.join(names)}.",
        missing=names,
        record_with="; ".join(sorted(how)) or None,
        analyzer=analyzer.name,
    )


def store(
    con: duckdb.DuckDBPyConnection, judgement: Judgement, replays: Sequence[gains.Tried] = ()
) -> None:
    """Fills the tables `finding`, in the order of `ordered`, `analyzer_outcome`, and those of the
    replays."""
    rows = [
        (
            number, f.trace_id, f.analyzer, f.kind, f.severity, int(f.rank), f.title, f.detail,
            f.advice, f.cost_ns, f.cost_pct, f.cost_of, f.utid, f.cpu, f.start_ns, f.end_ns,
            f.bound, f.evidence_sql, f.counter_evidence_sql, f.cost_low_ns, f.cost_high_ns, f.fix,
            f.frame_ns, f.fixed_frame_ns, f.fixed_low_ns, f.fixed_high_ns, f.no_gain_reason,
            f.gain_of, f.gain_pct, f.gain_low_pct, f.gain_high_pct,
        )
        for number, f in enumerate(ordered(judgement.findings), start=1)
    ]  # fmt: skip
    concluded = [
        (o.trace_id, o.analyzer, o.conclusion, o.reason or None, list(o.missing), o.record_with)
        for o in judgement.outcomes
    ]
    # One transaction: otherwise each row waits for the disk.
    con.begin()
    try:
        for table, content in (
            ("finding", rows),
            ("analyzer_outcome", concluded),
            ("replay_error", gains.error_rows(replays)),
            ("predicted_gain", gains.gain_rows(replays)),
        ):
            con.execute(f"DELETE FROM {table}")
            _insert(con, table, content)
    except BaseException:
        con.rollback()
        raise
    con.commit()


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Inserts rows, many with a statement: planning a statement takes longer than a row."""
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        line = f"({', '.join('?' * len(some[0]))})"
        con.execute(
            f"INSERT INTO {table} VALUES {', '.join([line] * len(some))}",
            [value for row in some for value in row],
        )
