"""The command `analyze`: recordings into a database, findings and a report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from schedlens.commands import completion
from schedlens.commands.trace_window import checked, trace_time

if TYPE_CHECKING:
    from schedlens.lake import written


@click.command("analyze")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for analysis.duckdb and report.html; by default the session itself.",
)  # fmt: skip
@click.option(
    "--process",
    help="The process the questions are about, or a group of threads: cgroup:PATH, container:ID, "
    "pod:ID or service:UNIT.",
)
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
@click.option(
    "--only", multiple=True, shell_complete=completion.analyzers,
    help="Only this analyzer; may be given again.",
)  # fmt: skip
@click.option(
    "--max-memory", metavar="SIZE",
    help="Memory to use at most, such as 4G. Default: 1.75G and a sixth of the recording's size, "
    "at most half of the machine's. Larger data is spilled to disk; a query that cannot finish is "
    "left out and named.",
)  # fmt: skip
@click.option(
    "--temp-folder", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder for spilled data. Default: next to the database.",
)  # fmt: skip
@click.option(
    "--lake", metavar="DIR-OR-URL",
    help="Also write tables and findings there as Parquet, such as s3://bucket/lake: docs/lake.md.",
)  # fmt: skip
@click.option("--machine", help="With --lake: the machine's name. Default: the recorded host.")
@click.option("--build", help="With --lake: the build of the recorded software.")
@click.option(
    "--report-budget", metavar="SIZE", default="8M", show_default=True,
    help="Size of the timeline in the report: shares of every recording, and all slices around "
    "the findings, the stutters and the worst waits as far as they fit.",
)  # fmt: skip
@click.option(
    "--symbol-server", "symbol_servers", multiple=True, metavar="URL",
    help="Fetch missing PDB files of Windows recordings from this symbol server: docs/stacks.md.",
)  # fmt: skip
@click.option(
    "--debuginfod", is_flag=True,
    help="Fetch missing debug files by build id from the servers in DEBUGINFOD_URLS.",
)  # fmt: skip
@click.option("--timings", "show_timings", is_flag=True, help="Print how long each query took.")
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
    max_memory: str | None,
    temp_folder: Path | None,
    lake: str | None,
    machine: str | None,
    build: str | None,
    report_budget: str,
    symbol_servers: tuple[str, ...],
    debuginfod: bool,
    show_timings: bool,
    no_report: bool,
    as_json: bool,
    fail_on: str | None,
) -> int:
    """Load recordings and explain them.

    PATHS are a session folder that `collect` wrote, or perf.data, trace.dat and .etl files of any
    origin, each with a file of its frames behind it if there is one (PresentMon's, or the program's
    own stamps: docs/frame-marks.md); the kernel and the user file of one Windows recording are read
    together.
    The file of `export --scrub` is read like a recording (docs/scrubbed-recordings.md).
    Perfetto traces, systrace files and ftrace texts need the package perfetto (docs/perfetto.md).
    Exit code 0: all was read. 1: answered, but a part could not be read, or --fail-on found
    something. 2: no answer.
    """
    # numpy, which pyarrow loads, otherwise starts threads that wait for matrices by spinning.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from schedlens.ask import findings, pipeline
    from schedlens.ask.timings import Timings
    from schedlens.errors import NothingLoadedError
    from schedlens.experiments import results
    from schedlens.load import calibration, recording, symbol_sources
    from schedlens.load import symbol_servers as names
    from schedlens.machine import memory
    from schedlens.output import terminal
    from schedlens.output.progress import bar
    from schedlens.output.whole_file import cannot_write
    from schedlens.output.wording import count
    from schedlens.report import overview, page
    from schedlens.timeline import preparation

    checked(from_s, to_s)
    window = (pipeline.nanoseconds(from_s), pipeline.nanoseconds(to_s))
    questions = pipeline.Questions(process, window, only, step)
    questions.check()
    budget = memory.size(report_budget)
    servers = names.asked(symbol_servers, debuginfod=debuginfod)
    recordings = [known.with_names_from(servers) for known in recording.gather(paths)]
    if topology is not None:
        from schedlens.load import described_machine

        described = described_machine.topology(topology)
        recordings = [known.described(described) for known in recordings]
    if process is None and len(paths) == 1 and recordings[0].scrubbed is not None:
        # The findings of a scrubbed recording are about the process of the original analysis.
        from schedlens.load import scrubbed_file

        process = scrubbed_file.process(paths[0])
    planned: list[written.Planned] = []
    if lake is not None:
        from schedlens.lake import file_access, written

        lake_files = file_access.LakeFiles(lake)
        planned = written.planned(
            lake_files,
            recordings,
            machine=machine,
            build=build,
            options=written.options(process, only, window, topology),
        )
        recordings = [known.recording for known in planned]
    elif machine is not None or build is not None:
        raise click.UsageError("--machine and --build need --lake")
    folder = output or _home(paths[0])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    database, report_file = folder / "analysis.duckdb", folder / "report.html"
    timings = Timings()

    # The report gets its name after the database, so that an interruption leaves the earlier two.
    try:
        with (
            page.saved(report_file) as save,
            preparation.saved(database) as prepared,
            pipeline.analyzed(
                recordings,
                database,
                questions,
                max_memory=memory.size(max_memory) if max_memory else None,
                temp_folder=temp_folder,
                trace_ids=[known.trace_id for known in planned],
                timings=timings,
                quiet=as_json,
                meanwhile=prepared.meanwhile,
            ) as run,
        ):
            con, scope, failures = run.con, run.scope, run.failures
            facts = overview.facts(scope, failures, database, None if no_report else report_file)
            unprinted: BaseException | None = None
            if not as_json:
                try:
                    overview.show_findings(facts)
                except (OSError, SystemExit) as error:
                    # The output is full or closed: the result is written nevertheless.
                    unprinted = error
            if lake is not None:
                with timings.phase("lake"):
                    entries = written.write(con, lake_files, planned)
            if no_report:
                # `schedlens serve` opens a large recording at once then.
                with timings.phase("timeline"):
                    prepared.finish(con)
            else:
                with bar(quiet=as_json) as progress, timings.phase("report"):
                    save(
                        page.text(
                            con, process=process, step=step, scope=scope, progress=progress,
                            budget=budget, timelines=prepared.timelines(con),
                        )
                    )  # fmt: skip
                    prepared.finish(con)
            unread = run.unread()
            facts["experiment"] = results.read(con, recordings[0].session)
            kept = calibration.store(con, recordings[0])
            facts["calibration"] = str(kept) if kept else None
            if lake is not None:
                facts["lake"] = {"place": lake, "written": [entry.trace_id for entry in entries]}
            if show_timings:
                facts["timings"] = [vars(timing) for timing in timings.phases + timings.slowest()]
    except NothingLoadedError as error:
        for line in error.lines[1:]:
            click.echo(terminal.visible(f"analyze: {line}"), err=True)
        raise
    if unprinted is not None:
        raise unprinted
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
    else:
        overview.show_files(facts)
        if lake is not None:
            there = sum(known.is_present for known in planned)
            already = f"; {there} already there" if there else ""
            said = f"lake      {lake}: {count(len(entries), 'recording')} written{already}"
            click.echo(terminal.plain(said))
        if show_timings:
            overview.show_timings(timings)
    shares = symbol_sources.shares(recordings)
    for line in [*(servers.lines() if servers else ()), *([shares] if shares else ())]:
        click.echo(terminal.visible(f"analyze: {line}"), err=True)
    if unread:
        said = f"analyze: not all was read: {'; '.join(unread)}"
        click.echo(terminal.visible(said), err=True)
    gate = (
        findings.SEVERITIES[: findings.SEVERITIES.index(cast(findings.Severity, fail_on)) + 1]
        if fail_on
        else ()
    )
    failed = [finding for finding in run.judgement.findings if finding.severity in gate]
    if failed:
        click.echo(f"analyze: --fail-on {fail_on}: {count(len(failed), 'finding')}", err=True)
    return 1 if unread or failed else 0


def _home(path: Path) -> Path:
    """The default output folder: in a session, or next to a file."""
    if path.is_dir() and not (path / "data").exists():
        return path
    return path.parent
