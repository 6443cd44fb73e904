"""The command `analyze`: recordings into a database, findings and a report."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from schedlens.commands.trace_window import checked, trace_time

if TYPE_CHECKING:
    import duckdb
    from rich.console import Console

    from schedlens.load.store import Failure


@click.command("analyze")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for analysis.duckdb and report.html; by default the session itself.",
)  # fmt: skip
@click.option("--process", help="The process the questions are about.")
@click.option(
    "--topology", type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="JSON that describes the machine, for recordings that do not: docs/windows-traces.md.",
)  # fmt: skip
@click.option(
    "--from",
    "from_s",
    type=float,
    callback=trace_time,
    help="Start of the window, in s of each trace.",
)
@click.option(
    "--to", "to_s", type=float, callback=trace_time, help="End of the window, in s of each trace."
)
@click.option("--step", help="The step whose timeline the report shows.")
@click.option("--only", multiple=True, help="Only this analyzer; may be given again.")
@click.option("--no-report", is_flag=True, help="Database and findings only.")
@click.option("--json", "as_json", is_flag=True, help="The findings and loads as one JSON object.")
@click.option(
    "--fail-on", type=click.Choice(["critical", "warning", "info"]),
    help="Exit with 1 if there is a finding of this severity or a worse one: for CI.",
)  # fmt: skip
def analyze(
    paths: tuple[Path, ...],
    output: Path | None,
    process: str | None,
    topology: Path | None,
    from_s: float | None,
    to_s: float | None,
    step: str | None,
    only: tuple[str, ...],
    no_report: bool,
    as_json: bool,
    fail_on: str | None,
) -> int:
    """Load recordings and explain them.

    PATHS are a session folder that `collect` wrote, or perf.data and .etl files of any origin, each
    with a file of its frames behind it if there is one (PresentMon's, or the program's own stamps:
    docs/frame-marks.md); the kernel and the user file of one Windows recording are read together.
    Exit code 0: all was read. 1: answered, but a part could not be read, or --fail-on found
    something. 2: no answer.
    """
    from schedlens.ask import analysis, findings, judging
    from schedlens.errors import NothingToReadError, UnknownNameError
    from schedlens.experiments import results
    from schedlens.load import calibration, recording, store
    from schedlens.output import terminal
    from schedlens.output.progress import bar
    from schedlens.output.whole_file import cannot_write
    from schedlens.output.wording import count

    checked(from_s, to_s)
    for name in only:
        if name not in judging.analyzers():
            raise UnknownNameError("analyzer", name, sorted(judging.analyzers()))
    recordings = recording.gather(paths)
    if topology is not None:
        from schedlens.load import described_machine

        described = described_machine.read(topology)
        recordings = [known.described(described) for known in recordings]
    folder = output or _home(paths[0])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    database, report_file = folder / "analysis.duckdb", folder / "report.html"
    window = (_ns(from_s), _ns(to_s))

    with store.create(database) as con:
        with bar(quiet=as_json) as progress:
            failures = analysis.load(con, recordings, window, progress)
        if len(failures) == len(recordings):
            for failure in failures[1:]:
                click.echo(terminal.plain(f"analyze: {failure.line}"), err=True)
            raise NothingToReadError(failures[0].line)
        _check_window(con, window)
        if process is not None:
            _check_process(con, process)
        if step is not None:
            _check_step(con, step)
        scope = findings.Scope(con, process)
        judgement = judging.judge_all(scope, only)
        judging.store(con, judgement)
        if not no_report:
            from schedlens.report import page

            page.write(con, report_file, process=process, step=step)
        refused = _refused(con)
        unread = [*(f"{failure.line}" for failure in failures), *refused, *_damaged(con)]
        facts = _facts(con, failures, database, None if no_report else report_file)
        facts["experiment"] = results.read(con, recordings[0].session)
        kept = calibration.store(con, recordings[0].session)
        facts["calibration"] = str(kept) if kept else None
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
    else:
        _summary(facts)
    if unread:
        said = f"analyze: not all was read: {'; '.join(unread)}"
        click.echo(terminal.plain(said), err=True)
    gate = (
        findings.SEVERITIES[: findings.SEVERITIES.index(cast(findings.Severity, fail_on)) + 1]
        if fail_on
        else ()
    )
    failed = [finding for finding in judgement.findings if finding.severity in gate]
    if failed:
        click.echo(f"analyze: --fail-on {fail_on}: {count(len(failed), 'finding')}", err=True)
    return 1 if unread or failed else 0


def _home(path: Path) -> Path:
    """Where the answer goes by default: into a session, beside a file."""
    if path.is_dir() and not (path / "data").exists():
        return path
    return path.parent


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000_000)


def _check_window(con: duckdb.DuckDBPyConnection, window: tuple[int | None, int | None]) -> None:
    empty = con.execute(
        "SELECT label, first_ns, duration_ns FROM analysis_window JOIN trace USING (trace_id) "
        "WHERE start_ns >= end_ns ORDER BY trace_id LIMIT 1"
    ).fetchone()
    if empty and window != (None, None):
        raise click.UsageError(
            f"the window lies outside {empty[0]}, which goes from {empty[1] / 1e9:.3f} s "
            f"to {empty[2] / 1e9:.3f} s"
        )


def _check_process(con: duckdb.DuckDBPyConnection, process: str) -> None:
    from schedlens.errors import UnknownNameError

    names = [
        row[0]
        for row in con.execute(
            "SELECT DISTINCT name FROM process WHERE name IS NOT NULL ORDER BY name"
        ).fetchall()
    ]
    if process not in names:
        raise UnknownNameError(
            "process", process, names, '`schedlens sql SESSION "FROM process"` after analyze'
        )


def _check_step(con: duckdb.DuckDBPyConnection, step: str) -> None:
    from schedlens.errors import UnknownNameError

    labels = [row[0] for row in con.execute("SELECT label FROM trace ORDER BY 1").fetchall()]
    if step not in labels:
        raise UnknownNameError("step", step, labels, "the session folder")


def _damaged(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Parts of the recordings that are truncated or damaged (corrected rows do not count)."""
    from schedlens.output.wording import count

    rows = con.execute(
        "SELECT label, signalled_by, count(*) FROM loss JOIN trace USING (trace_id) "
        "WHERE signalled_by IN ('truncated', 'damaged') GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return [f"{label} has {count(parts, f'{kind} part')}" for label, kind, parts in rows]


def _refused(con: duckdb.DuckDBPyConnection) -> list[str]:
    """What was recorded in a form that is not read, a line each."""
    rows = con.execute(
        "SELECT label, count, what FROM problem JOIN trace USING (trace_id) "
        "WHERE place = 'CompactCSwitch' ORDER BY trace_id"
    ).fetchall()
    return [f"{label}: {count} {what}" for label, count, what in rows]


def _facts(
    con: duckdb.DuckDBPyConnection,
    failures: list[Failure],
    database: Path,
    report: Path | None,
) -> dict[str, Any]:
    def rows(sql: str) -> list[dict[str, Any]]:
        cursor = con.execute(sql)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return {
        "database": str(database),
        "report": str(report) if report else None,
        "traces": rows(
            "SELECT trace_id, label, source, (duration_ns - first_ns) AS duration_ns, events_lost, "
            "start_ns AS window_start_ns, end_ns AS window_end_ns, kind AS window_kind "
            "FROM trace JOIN analysis_window USING (trace_id) ORDER BY trace_id"
        ),
        "findings": rows("SELECT * FROM finding ORDER BY finding_id"),
        "outcomes": rows("SELECT * FROM analyzer_outcome ORDER BY analyzer, trace_id NULLS FIRST"),
        "problems": rows(
            "SELECT label, place, what, count FROM problem JOIN trace USING (trace_id) "
            "ORDER BY trace_id, place, what"
        ),
        "not_loaded": [vars(failure) for failure in failures],
        "not_answered": [
            row["question"]
            for row in rows(
                "SELECT question FROM answerable GROUP BY question "
                "HAVING bool_and(answer = 'no') ORDER BY question"
            )
        ],
        "worth_typing": [row["query"] for row in rows(_NEXT_QUERIES)],
    }


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
    ('step_disturbance', EXISTS (FROM step_disturbance WHERE is_disturbed)),
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
_SIGNS = {
    "critical": "[bold red]critical[/]",
    "warning": "[yellow]warning [/]",
    "info": "[cyan]info    [/]",
    "clean": "[green]clean   [/]",
    "missing": "[dim]missing [/]",
}


def _summary(facts: dict[str, Any]) -> None:
    from rich.console import Console

    from schedlens.ask.findings import Rank
    from schedlens.load import store
    from schedlens.output.terminal import escape
    from schedlens.output.wording import count

    console = Console(highlight=False, soft_wrap=True)
    traces = facts["traces"]
    seconds = sum(trace["duration_ns"] for trace in traces) / 1e9
    console.print(f"[bold]{count(len(traces), 'recording')}[/bold], {seconds:.1f} s")
    for failure in facts["not_loaded"]:
        console.print(f"[red]not loaded[/] {escape(store.Failure(**failure).line)}")
    shown: dict[str, int] = {}
    for finding in facts["findings"]:
        severity = finding["severity"]
        # The answers to an experiment are all shown.
        if finding["rank"] != Rank.ANSWER:
            shown[severity] = shown.get(severity, 0) + 1
        if shown.get(severity, 0) <= _MOST_SHOWN[severity]:
            _show_finding(console, finding)
    for severity, most in _MOST_SHOWN.items():
        more = shown.get(severity, 0) - most
        if more > 0:
            console.print(f"{_SIGNS[severity]} [dim]and {more} more in the report[/]")
    _show_outcomes(console, [row for row in facts["outcomes"] if row["trace_id"] is None])
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
    for query in facts["worth_typing"]:
        console.print(f"  schedlens sql {escape(folder)} {query}")
    console.print(f'  duckdb {escape(shlex.quote(facts["database"]))} -c "FROM finding"')


def _show_finding(console: Console, found: dict[str, Any]) -> None:
    from schedlens.output import wording
    from schedlens.output.terminal import escape

    cost = ""
    if found["cost_ns"]:
        length = wording.unbroken(wording.duration(found["cost_ns"]))
        if length not in found["title"]:
            ends = found["cost_low_ns"], found["cost_high_ns"]
            cost = wording.unbroken(wording.cost(found["cost_ns"], found["bound"], *ends))
            cost = f" ({cost})"
    console.print(f"{_SIGNS[found['severity']]} {escape(found['title'])}{cost}")
    console.print(f"         {escape(found['detail'])}")
    lines = found["advice"].splitlines()
    for line in lines[:_ADVICE_LINES]:
        console.print(f"         [dim]{escape(line)}[/dim]")
    if len(lines) > _ADVICE_LINES:
        console.print(f"         [dim]and {len(lines) - _ADVICE_LINES} more lines: FROM finding[/]")


def _show_outcomes(console: Console, outcomes: list[dict[str, Any]]) -> None:
    """The analyzers that found no problem, and those whose events are missing."""
    from schedlens.output.terminal import escape

    clean = [row for row in outcomes if row["outcome"] == "clean"]
    if len(clean) <= _FEW_CLEAN:
        for row in clean:
            console.print(f"{_SIGNS['clean']} {row['analyzer']}: {escape(row['reason'] or '')}")
    else:
        listed = ", ".join(row["analyzer"] for row in clean)
        console.print(f"{_SIGNS['clean']} No problems found: {listed}")
    missing = ", ".join(row["analyzer"] for row in outcomes if row["outcome"] == "not_recorded")
    if missing:
        console.print(
            f"{_SIGNS['missing']} [dim]Not analyzed, events missing (FROM analyzer_outcome): "
            f"{missing}[/]"
        )
