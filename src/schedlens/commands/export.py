"""The command `schedlens export`: an analyzed session in the formats of other tools."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlens.commands.trace_window import checked, trace_time

if TYPE_CHECKING:
    import duckdb

    from schedlens.ask.findings import Scope
    from schedlens.export.columnar_files import Form
    from schedlens.export.excerpt import Choice
    from schedlens.export.stack_profiles import Form as StackForm
    from schedlens.export.stack_profiles import Measure, Selection

MARGIN_S = 0.1


@click.command("export")
@click.argument("path")
@click.argument("query", nargs=-1)
@click.option("--perfetto", "form", flag_value="perfetto", help="Traces for ui.perfetto.dev.")
@click.option("--parquet", "form", flag_value="parquet", help="Parquet files.")
@click.option("--arrow", "form", flag_value="arrow", help="Arrow IPC files.")
@click.option("--csv", "form", flag_value="csv", help="CSV files with a header.")
@click.option(
    "--folded", "form", flag_value="folded", help="Stacks as folded text, for flame graph scripts."
)
@click.option("--speedscope", "form", flag_value="speedscope", help="Stacks for speedscope.app.")
@click.option(
    "--firefox",
    "form",
    flag_value="firefox",
    help="For profiler.firefox.com: a track per CPU with every slice, or --stacks.",
)
@click.option(
    "--scrub", "form", flag_value="scrub",
    help="One file to mail: the recording around findings, with hashed names.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(path_type=Path),
    help="File or folder to write. Default: next to the database.",
)  # fmt: skip
@click.option(
    "--stacks", "measure", type=click.Choice(["samples", "waiting", "ready", "wakeups"]),
    help="With --folded, --speedscope or --firefox: which stacks.  [default: samples, and with "
    "--firefox the schedule]",
)  # fmt: skip
@click.option(
    "--trace", "label",
    help="With --perfetto or stacks: only this recording, by label or number.",
)  # fmt: skip
@click.option(
    "--no-tracks", is_flag=True,
    help="With --perfetto: only the recording, without the tracks of schedlens.",
)  # fmt: skip
@click.option(
    "--finding", "findings", multiple=True, metavar="KIND",
    help="With --scrub: this kind, analyzer or number of a finding, or all; may be given again. "
    "Default: all findings above info. With stacks: those of the thread and the window of the "
    "finding with this number.",
)  # fmt: skip
@click.option(
    "--margin", "margin_s", type=click.FloatRange(0, 3600), default=None,
    help="With --scrub: time to keep before and after the findings, in s.  [default: 0.1]",
)  # fmt: skip
@click.option("--from", "from_s", type=float, callback=trace_time,
              help="With --scrub or stacks: start, in s of each trace.")  # fmt: skip
@click.option("--to", "to_s", type=float, callback=trace_time,
              help="With --scrub or stacks: end, in s of each trace.")  # fmt: skip
@click.option("--process", help="With --scrub: the process that `analyze` was given. With "
              "stacks: only this process.")  # fmt: skip
@click.option("--thread", "tid", type=int, help="With stacks: only the thread with this id.")
@click.option(
    "--salt", metavar="SECRET", envvar="SCHEDLENS_SALT",
    help="With --scrub: secret of the hashes, so that the names of several files agree. Default: "
    "a random one for each file.",
)  # fmt: skip
@click.option("--report", is_flag=True, help="With --scrub: also its report, with hashed names.")
def export(
    path: str,
    query: tuple[str, ...],
    form: str | None,
    output: Path | None,
    measure: Measure | None,
    label: str | None,
    no_tracks: bool,
    findings: tuple[str, ...],
    margin_s: float | None,
    from_s: float | None,
    to_s: float | None,
    process: str | None,
    tid: int | None,
    salt: str | None,
    report: bool,
) -> int:
    """Write the session, database or lake PATH for other tools.

    --perfetto writes one trace per recording (docs/perfetto.md). The other formats write the answer
    of a QUERY to one file: SQL, a table, or the name of a query with optional arguments. Without
    QUERY they write each table with rows to a file of its own.

    --scrub writes one file that `analyze` reads like a recording, without names, paths, and
    settings that identify a machine or a person, and checks that it gives the same findings
    (docs/scrubbed-recordings.md).

    --folded, --speedscope and --firefox --stacks write the stacks of a recording, weighted by
    samples, by waiting time, by ready time, or by wakeups (docs/stacks.md), for all, a process, a
    thread, a window or a finding. --firefox without --stacks writes the schedule, one track per
    logical CPU.

    \b
      schedlens export SESSION --perfetto
      schedlens export SESSION --speedscope --stacks waiting -o waits.speedscope.json
      schedlens export SESSION --folded --stacks waiting --finding 1 -o finding.folded.txt
      schedlens export SESSION --perfetto --trace sha256-default-t01-r1 -o first.perfetto-trace
      schedlens export SESSION --scrub --finding stutter -o stutter.schedlens
      schedlens export SESSION --parquet -o tables
      schedlens export SESSION thread_summary process=game --csv -o threads.csv
    """
    from schedlens.lake import reading
    from schedlens.output.progress import bar
    from schedlens.output.terminal import visible

    if form is None:
        raise click.UsageError(
            "give a format: --perfetto, --folded, --speedscope, --firefox, --scrub, --parquet, "
            "--arrow or --csv"
        )
    of_stacks = form in ("folded", "speedscope", "firefox")
    if of_stacks and query:
        raise click.UsageError(f"--{form} takes no QUERY; --stacks chooses the stacks")
    if measure is not None and not of_stacks:
        raise click.UsageError("--stacks needs --folded, --speedscope or --firefox")
    if form == "perfetto" and query:
        raise click.UsageError("--perfetto takes no QUERY; --trace chooses a recording")
    if form != "perfetto" and (no_tracks or (label and not of_stacks)):
        raise click.UsageError("--trace and --no-tracks need --perfetto")
    checked(from_s, to_s)
    by_stack = of_stacks and (form != "firefox" or measure is not None)
    chosen = (findings, from_s is not None, to_s is not None, process is not None)
    of_scrub = (margin_s is not None, *(() if of_stacks else chosen))
    if (tid is not None or any(chosen)) and of_stacks and not by_stack:
        raise click.UsageError(
            "--finding, --from, --to, --process and --thread need --stacks: a track shows all "
            "that ran"
        )
    if tid is not None and not of_stacks:
        raise click.UsageError("--thread needs --folded, --speedscope or --firefox")
    # The secret may be in the environment for other calls.
    if form != "scrub" and any((*of_scrub, report)):
        raise click.UsageError(
            "--finding, --margin, --from, --to, --process and --report need --scrub"
        )
    if form == "scrub":
        if query:
            raise click.UsageError("--scrub takes no QUERY; --finding chooses findings")
        if process is not None and process.startswith(("container:", "pod:")):
            raise click.UsageError(
                "--scrub replaces ids of containers: give the cgroup, --process cgroup:PATH"
            )
        choice = _choice(findings, margin_s, from_s, to_s)
        return scrub(path, output, choice, process, salt, report)
    if len(query) == 1 and re.fullmatch(r"\S*[/\\]\S*", query[0]):
        raise click.UsageError(
            f"{visible(query[0])} is no QUERY (SQL, a table, or the name of a query): to write "
            f"there, give -o {visible(query[0])}"
        )
    with reading.opened(path) as analysis, bar() as progress:
        if form == "perfetto":
            written = _traces(analysis.con, _home(path, output), output, label, no_tracks, progress)
        elif of_stacks:
            part = _part(analysis.con, findings, process, tid, (from_s, to_s))
            written = _profiles(analysis.con, path, output, form, measure, label, part)
        else:
            written = _tables(analysis.con, path, query, form, output, progress)
    for file in written:
        click.echo(f"{file} ({file.stat().st_size:,} bytes)")
    return 0


def _choice(
    findings: tuple[str, ...], margin_s: float | None, from_s: float | None, to_s: float | None
) -> Choice:
    """The findings and the time to keep."""
    from schedlens.export.excerpt import Choice

    def ns(seconds: float | None) -> int | None:
        return None if seconds is None else round(seconds * 1e9)

    margin = round((MARGIN_S if margin_s is None else margin_s) * 1e9)
    return Choice(findings, margin, ns(from_s), ns(to_s))


def scrub(
    path: str,
    output: Path | None,
    choice: Choice,
    process: str | None = None,
    salt: str | None = None,
    report: bool = False,
) -> int:
    """Writes the scrubbed recording, analyzes it, and prints which findings are the same."""
    from schedlens.export import excerpt, scrubbed_recording
    from schedlens.lake import reading
    from schedlens.load import scrubbed_file
    from schedlens.output import terminal
    from schedlens.output.progress import bar
    from schedlens.output.wording import count
    from schedlens.report import page

    file = _home(path, None) / f"scrubbed{scrubbed_file.SUFFIX}" if output is None else output
    if file.is_dir():
        file = file / f"scrubbed{scrubbed_file.SUFFIX}"
    _make(file.parent)
    with reading.opened(path) as analysis:
        chosen = excerpt.choose(analysis.con, choice)
        with bar() as progress:
            hashed = scrubbed_recording.write(
                analysis.con, file, chosen, process=process, progress=progress,
                salt=None if salt is None else salt.encode("utf-8", "surrogateescape"),
            )  # fmt: skip
    html = file.with_suffix(".html")

    def written(scope: Scope) -> None:
        page.write(scope.con, html, process=hashed)

    with bar() as progress:
        found = scrubbed_recording.compare(
            file, chosen, process=hashed, progress=progress, report=written if report else None
        )
    click.echo(f"{file} ({file.stat().st_size:,} bytes)")
    if report:
        click.echo(f"{html} ({html.stat().st_size:,} bytes)")
    for part in chosen.parts:
        which = (
            "all" if part.is_whole else f"{part.from_ns / 1e9:.3f} s to {part.to_ns / 1e9:.3f} s"
        )
        click.echo(terminal.plain(f"recording {part.number}: {which}"))
    same = sum(one.is_same for one in found)
    if found:
        click.echo(
            terminal.plain(f"{same} of {count(len(found), 'finding')} the same in this file")
        )
    for one in found:
        if not one.is_same:
            click.echo(terminal.plain(f"  differs: {one.line}"))
    if same < len(found):
        click.echo(terminal.plain(scrubbed_recording.WHY))
    return 0


def _home(path: str, output: Path | None) -> Path:
    """The folder for files without a name."""
    if output is not None:
        return output
    place = Path(path)
    if "://" in path:
        return Path()
    return place if place.is_dir() else place.parent


def _traces(
    con: duckdb.DuckDBPyConnection,
    home: Path,
    output: Path | None,
    label: str | None,
    no_tracks: bool,
    progress: object,
) -> list[Path]:
    from schedlens.export import chosen_recordings, perfetto_trace

    chosen = chosen_recordings.choose(con, label)
    # A name without an ending is a folder, unless one recording was asked for.
    is_file = (
        output is not None
        and len(chosen) == 1
        and not output.is_dir()
        and bool(label or output.suffix)
    )
    if not is_file:
        _make(home)
    written = []
    for number, one in enumerate(chosen):
        file = home if is_file else home / one.file_name
        if file in written:
            file = file.with_stem(f"{file.stem}-{one.trace_id}")

        def part(name: str, share: float, label: str = one.label, before: int = number) -> None:
            if callable(progress):
                progress(f"{label}: {name}", (before + share) / len(chosen))

        perfetto_trace.save(con, one.trace_id, file, with_tracks=not no_tracks, progress=part)
        written.append(file)
    return written


def _part(
    con: duckdb.DuckDBPyConnection,
    findings: tuple[str, ...],
    process: str | None,
    tid: int | None,
    window_s: tuple[float | None, float | None],
) -> Selection:
    """The chosen stacks; its recording is 0 for all recordings."""
    from schedlens.ask.pipeline import nanoseconds
    from schedlens.export import stack_profiles

    from_ns, to_ns = map(nanoseconds, window_s)
    if not findings:
        return stack_profiles.Selection(0, process, tid, from_ns, to_ns)
    if len(findings) > 1 or not findings[0].isdecimal() or len(findings[0]) > 9:
        raise click.UsageError("--finding takes one number with stacks: `FROM finding` lists them")
    if tid is not None or process is not None or window_s != (None, None):
        raise click.UsageError("--finding chooses thread and window itself")
    return stack_profiles.of_finding(con, int(findings[0]))


def _profiles(
    con: duckdb.DuckDBPyConnection,
    path: str,
    output: Path | None,
    form: str,
    measure: Measure | None,
    label: str | None,
    part: Selection,
) -> list[Path]:
    from dataclasses import replace
    from typing import cast

    from schedlens.export import chosen_recordings, cpu_markers, stack_profiles

    kind = cast("StackForm", form)
    chosen = [
        one for one in chosen_recordings.choose(con, label) if part.trace_id in (0, one.trace_id)
    ]
    is_file = output is not None and len(chosen) == 1 and not output.is_dir()
    folder = _home(path, None) if output is None else output.parent if is_file else output
    _make(folder)
    written = []
    for one in chosen:
        stem = one.file_name.removesuffix(chosen_recordings.SUFFIX)
        of_cpus = kind == "firefox" and measure is None
        shown = measure or "samples"
        end = cpu_markers.SUFFIX if of_cpus else f"-{shown}{stack_profiles.SUFFIXES[kind]}"
        file = output if is_file and output is not None else folder / f"{stem}{end}"
        if of_cpus:
            cpu_markers.save(con, file, one.trace_id)
        else:
            stack_profiles.save(con, file, kind, shown, replace(part, trace_id=one.trace_id))
        written.append(file)
    return written


def _tables(
    con: duckdb.DuckDBPyConnection,
    path: str,
    query: tuple[str, ...],
    form: str,
    output: Path | None,
    progress: object,
) -> list[Path]:
    from typing import cast

    from schedlens.commands.sql import statement
    from schedlens.export import columnar_files

    kind = cast("Form", form)
    if query:
        name = query[0] if re.fullmatch(r"[\w.]+", query[0]) else "query"
        file = output or _home(path, None) / f"{name}.{form}"
        if file.is_dir():
            file = file / f"{name}.{form}"
        columnar_files.save(con, statement(query).strip().rstrip(";"), file, kind)
        return [file]
    folder = output or _home(path, None) / form
    _make(folder)
    names = columnar_files.tables(con)
    written = []
    for number, name in enumerate(names):
        if callable(progress):
            progress(name, number / len(names))
        file = folder / f"{name}.{form}"
        columnar_files.save(con, f'FROM "{name}"', file, kind)
        written.append(file)
    return written


def _make(folder: Path) -> None:
    from schedlens.output.whole_file import cannot_write

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
