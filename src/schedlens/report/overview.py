"""What `analyze` prints: findings, outcomes, timings, and what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from schedlens.ask.findings import Rank, Scope
from schedlens.ask.timings import Timings
from schedlens.load.recording_rows import Failure
from schedlens.output import fitted, wording
from schedlens.output.terminal import escape, plain
from schedlens.output.wording import count
from schedlens.report import frame_cost, todo

# Characters of a query in the table of timings.
_QUERY_WIDTH = 100


def facts(
    scope: Scope,
    failures: list[Failure],
    database: Path,
    report: Path | None,
) -> dict[str, Any]:
    """What was loaded, found and concluded, as JSON values: the object that `--json` prints."""
    rows = scope.rows
    disturbed = scope.call("step_disturbance")
    never = scope.answers.without_rows(disturbed) is not None
    next_queries = _NEXT_QUERIES.format(
        disturbed="false" if never else f"EXISTS ({disturbed} WHERE is_disturbed)"
    )
    return {
        "database": str(database),
        "report": str(report) if report else None,
        "traces": _with_frames(
            scope,
            "SELECT trace_id, label, source, (duration_ns - first_ns) AS duration_ns, events_lost, "
            "start_ns AS window_start_ns, end_ns AS window_end_ns, kind AS window_kind "
            "FROM trace JOIN analysis_window USING (trace_id) ORDER BY trace_id",
        ),
        "findings": rows("SELECT * FROM finding ORDER BY finding_id"),
        "what_if": {
            "replays": rows("FROM replay_error ORDER BY trace_id, figure"),
            "gains": rows("FROM predicted_gain ORDER BY trace_id, change, figure"),
        },
        "outcomes": rows("SELECT * FROM analyzer_outcome ORDER BY analyzer, trace_id NULLS FIRST"),
        "problems": rows(
            "SELECT label, place, what, count FROM problem JOIN trace USING (trace_id) "
            "ORDER BY trace_id, place, what"
        ),
        "not_loaded": [vars(failure) for failure in failures],
        "not_answered": [
            row["question"]
            for row in rows(
                f"SELECT question FROM ({scope.call('answerable')}) GROUP BY question "
                "HAVING bool_and(answer = 'no') ORDER BY question"
            )
        ],
        "next_queries": [row["query"] for row in rows(next_queries)],
    }


def _with_frames(scope: Scope, sql: str) -> list[dict[str, Any]]:
    """The recordings, each with the number of frames that costs are divided by; None without."""
    traces = scope.rows(sql)
    for row in traces:
        most = frame_cost.most(scope.kept(frame_cost.question(scope, row["trace_id"])))
        row["frames"] = most and most["frames"]
    return traces


# Queries that have an answer for this session, the more special ones first.
_NEXT_QUERIES = """
SELECT query
FROM (
  VALUES
    ('pair_interference', EXISTS (FROM experiment_cell WHERE experiment = 'pairs')),
    ('handoff_time', EXISTS (FROM experiment_cell WHERE experiment = 'handoff')),
    ('shard_latency', EXISTS (FROM experiment_cell WHERE experiment = 'shards')),
    ('smt_boost', EXISTS (FROM experiment_cell WHERE experiment = 'smt-boost')),
    ('scaling_clock', EXISTS (FROM experiment_cell WHERE experiment = 'scaling')),
    ('frame_ledger_total', EXISTS (FROM frame WHERE utid IS NOT NULL)),
    ('frame_time', EXISTS (FROM frame)),
    (
      'scaling_curve',
      (SELECT count(DISTINCT threads) > 1 FROM run WHERE workload IS NOT NULL)
    ),
    (
      'sibling_overlap',
      EXISTS (FROM cpu WHERE smt_index > 0) AND EXISTS (FROM context_switch)
    ),
    (
      'core_type_residency',
      EXISTS (FROM cpu WHERE core_type IN ('E', 'LP-E')) AND EXISTS (FROM context_switch)
    ),
    ('step_disturbance', {disturbed}),
    ('worst_waits', EXISTS (FROM sched_slice WHERE ready_ns >= 1000000)),
    ('thread_summary', EXISTS (FROM context_switch)),
    ('concurrency', EXISTS (FROM context_switch)),
    ('answerable', true),
    ('trace_quality', true),
    ('topology', true)
) AS next(query, fits)
WHERE fits
LIMIT 3
"""
# What fits on a screen; the rest is in the report and in the table.
_MOST_SHOWN = {"critical": 6, "warning": 6, "info": 5}
_FEW_CLEAN = 3
_ADVICE_LINES = 6
# The width of a sign and the space behind it.
_INDENT = " " * 9
_SIGNS = {
    "critical": "[bold red]critical[/]",
    "warning": "[yellow]warning [/]",
    "info": "[cyan]info    [/]",
    "clean": "[green]clean   [/]",
    "missing": "[dim]missing [/]",
    "unknown": "[dim]what-if [/]",
}


def show_findings(facts: dict[str, Any]) -> None:
    """Prints the most important findings and the outcomes."""
    console = _console()
    traces = facts["traces"]
    seconds = sum(trace["duration_ns"] for trace in traces) / 1e9
    console.print(f"[bold]{count(len(traces), 'recording')}[/bold], {seconds:.1f} s")
    for failure in facts["not_loaded"]:
        console.print(f"[red]not loaded[/] {escape(Failure(**failure).line)}")
    frames = {trace["trace_id"]: trace["frames"] for trace in traces}
    shown: dict[str, int] = {}
    for finding in facts["findings"]:
        severity = finding["severity"]
        # The answers to an experiment are all shown.
        if finding["rank"] != Rank.ANSWER:
            shown[severity] = shown.get(severity, 0) + 1
        if shown.get(severity, 0) <= _MOST_SHOWN[severity]:
            _show_finding(console, finding, frames.get(finding["trace_id"]))
    for severity, most in _MOST_SHOWN.items():
        more = shown.get(severity, 0) - most
        if more > 0:
            console.print(f"{_SIGNS[severity]} [dim]and {more} more in the report[/]")
    for line in todo.unpredicted(facts):
        console.print(f"{_SIGNS['unknown']} [dim]{_hanging(console, line)}[/]")
    _show_outcomes(console, facts)
    # At once, also into a pipe: the report takes a third of the time.
    console.file.flush()


def show_files(facts: dict[str, Any]) -> None:
    """Prints what was written, and what to do next."""
    console = _console()
    console.print(f"\ndatabase  {escape(facts['database'])}")
    if facts["report"]:
        console.print(f"report    {escape(facts['report'])}")
    if facts["calibration"]:
        console.print(
            f"kept      {escape(facts['calibration'])}: speed and Y of each kernel, for later "
            "traces of this machine"
        )
    folder = shlex.quote(str(Path(facts["database"]).parent))
    console.print("\nNext steps")
    for query in facts["next_queries"]:
        console.print(f"  schedlens sql {escape(folder)} {query}")
    console.print(f'  duckdb {escape(shlex.quote(facts["database"]))} -c "FROM finding"')


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def show_timings(timings: Timings) -> None:
    """Prints the phases and the slowest queries on stderr: seconds, for what, which query."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("\nTimings (s)")
    for timing in timings.phases:
        console.print(f"{timing.seconds:8.2f}  {escape(timing.part)}")
    shown = timings.slowest()
    others = len(timings.queries) - len(shown)
    console.print(f"\nSlowest queries (s), {others} faster ones not shown")
    for timing in shown:
        query = " ".join(timing.sql.split())
        query = query if len(query) <= _QUERY_WIDTH else f"{query[: _QUERY_WIDTH - 3]}..."
        left = "left out: " if timing.left_out else ""
        console.print(f"{timing.seconds:8.2f}  {escape(f'{timing.part:32}  {left}{query}')}")


def _show_finding(console: Console, found: dict[str, Any], frames: int | None = None) -> None:
    cost = ""
    if found["cost_ns"]:
        length = wording.unbroken(wording.duration(found["cost_ns"]))
        if length not in found["title"]:
            ends = found["cost_low_ns"], found["cost_high_ns"]
            cost = wording.unbroken(wording.cost(found["cost_ns"], found["bound"], *ends))
            cost = f" ({cost})"
    console.print(f"{_SIGNS[found['severity']]} {_hanging(console, found['title'] + cost)}")
    console.print(f"{_INDENT}{_hanging(console, found['detail'])}")
    lines = found["advice"].splitlines()
    for line in lines[:_ADVICE_LINES]:
        console.print(f"{_INDENT}[dim]{_hanging(console, line)}[/dim]")
    if len(lines) > _ADVICE_LINES:
        console.print(f"{_INDENT}[dim]and {len(lines) - _ADVICE_LINES} more lines: FROM finding[/]")
    for line in (frame_cost.lost(found, frames), todo.gain(found)):
        if line is not None:
            console.print(f"{_INDENT}{_hanging(console, line)}")


def _hanging(console: Console, text: str) -> str:
    """The text escaped; in a terminal in lines that begin below each other."""
    if not console.is_terminal:
        return escape(text)
    lines = fitted.hanging(plain(text), console.width, len(_INDENT))
    return escape("\n".join(lines).removeprefix(_INDENT))


def _show_outcomes(console: Console, facts: dict[str, Any]) -> None:
    """The analyzers that found no problem, and those whose events are missing."""
    outcomes = [row for row in facts["outcomes"] if row["trace_id"] is None]
    clean = [row for row in outcomes if row["outcome"] == "clean"]
    if len(clean) <= _FEW_CLEAN:
        for row in clean:
            said = f"{row['analyzer']}: {row['reason'] or ''}"
            console.print(f"{_SIGNS['clean']} {_hanging(console, said)}")
    else:
        listed = ", ".join(row["analyzer"] for row in clean)
        unknown = [row["cost_pct"] or 0.0 for row in facts["findings"] if row["kind"] == "loss"]
        where = ""
        if unknown and max(unknown) > 0:
            where = f" in what was recorded ({wording.percent(max(unknown))} of CPU time unknown)"
        said = f"No problems found{where}: {listed}"
        console.print(f"{_SIGNS['clean']} {_hanging(console, said)}")
    missing = ", ".join(row["analyzer"] for row in outcomes if row["outcome"] == "not_recorded")
    if missing:
        said = f"Not analyzed, events missing (FROM analyzer_outcome): {missing}"
        console.print(f"{_SIGNS['missing']} [dim]{_hanging(console, said)}[/]")
